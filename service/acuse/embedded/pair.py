"""PostgreSQL and Valkey together, in one state folder."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from acuse.embedded.folder import StateFolder, default_folder
from acuse.embedded.identity import choose_identity
from acuse.embedded.postgres import EmbeddedPostgres
from acuse.embedded.valkey import EmbeddedValkey

__all__ = ["EmbeddedPair"]


class EmbeddedPair:
    """Both servers, for `acuse dev`, the demo and tests. A context manager, or `start` and `stop`.

    `folder`: None for the account's own state folder `name` (see `default_folder`). Data stays there from one start to
    the next. On Linux the servers end with the process that started them, however it ends. Touches no other server.

        with EmbeddedPair.temporary(durable=False) as pair:
            engine = sqlalchemy.create_engine(pair.database_url)
    """

    def __init__(self, folder: Path | str | None = None, *, name: str = "dev", durable: bool = True) -> None:
        self._asked = None if folder is None else Path(folder)
        self._name = name
        self._durable = durable
        self._temporary = False
        self._folder: StateFolder | None = None
        self._postgres: EmbeddedPostgres | None = None
        self._valkey: EmbeddedValkey | None = None

    @classmethod
    def temporary(cls, *, durable: bool = True) -> Self:
        """A pair in a temporary folder that `stop` removes."""
        pair = cls(durable=durable)
        pair._temporary = True
        return pair

    def start(self) -> Self:
        """Start what does not run, and wait until both answer.

        Raises EmbeddedBusy, EmbeddedFolderRefused, EmbeddedNotInstalled, EmbeddedNotPermitted or EmbeddedStartFailed.
        """
        identity = choose_identity()
        if self._folder is None:
            asked = None if self._temporary else self._asked or default_folder(self._name, identity)
            self._folder = StateFolder(asked)
        try:
            self._folder.claim(identity)
            if self._postgres is None or self._valkey is None:
                self._postgres = EmbeddedPostgres(self._folder.path / "postgres", durable=self._durable)
                self._valkey = EmbeddedValkey(self._folder.path / "valkey", durable=self._durable)
            self._valkey.start()
            self._postgres.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop both in order and let go of the folder. Nothing to do in a fork of the launcher."""
        for server in (self._valkey, self._postgres):
            if server is not None:
                server.stop()
        if self._folder is not None:
            self._folder.release()
        self._folder = self._postgres = self._valkey = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def postgres(self) -> EmbeddedPostgres:
        """The PostgreSQL of the pair. Raises RuntimeError unless started."""
        if self._postgres is None:
            raise RuntimeError("the embedded pair is not started")
        return self._postgres

    @property
    def valkey(self) -> EmbeddedValkey:
        """The Valkey of the pair. Raises RuntimeError unless started."""
        if self._valkey is None:
            raise RuntimeError("the embedded pair is not started")
        return self._valkey

    @property
    def folder(self) -> Path:
        """The state folder. Raises RuntimeError unless started."""
        return self.postgres.folder.parent

    @property
    def database_url(self) -> str:
        """`postgresql+psycopg://postgres:PASSWORD@127.0.0.1:PORT/acuse`, as SQLAlchemy takes it."""
        return self.postgres.database_url

    @property
    def redis_url(self) -> str:
        """`redis://:PASSWORD@127.0.0.1:PORT/0`."""
        return self.valkey.redis_url
