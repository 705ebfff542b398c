"""`acuse doctor`: looks at everything that a deployment needs, says what is wrong and what to do."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from acuse.errors import AcuseError
from acuse.settings import Settings, load_settings
from acuse.store.engine import sync_engine
from acuse.store.handshake import check_schema
from acuse.store.pooler import Between, look_between
from acuse.store.snapshot import Holder, holders

__all__ = ["ENTRY_POINTS", "DoctorCommand", "Finding", "doctor"]

ENTRY_POINTS = "acuse.checks"
"""Checks of other parts: each loads to a function (settings) -> iterable of (level, subject, sentence)."""

OLDEST_TRANSACTION_SECONDS = 300

_NUMBERS = text("select current_setting('server_version_num')::int as version, current_setting('synchronous_commit') as commit")
_MONTHS = text(
    "select count(*) from pg_inherits where inhparent = 'acuse.ledger'::regclass and inhrelid::regclass::text > :this_month"
)
_HELD = text(
    """
    select (select count(*) from acuse.operation where held is not null) as held,
           (select count(*) from acuse.operation where status in ('dispatching', 'unknown')) as unresolved,
           (select count(*) from acuse.incident where closed_at is null) as incidents,
           (select count(*) from acuse.outbox_message) as outbox
    """
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen. `level`: `ok`, `note` (look at it) or `wrong` (must be mended)."""

    level: str
    subject: str
    sentence: str


class DoctorCommand:
    """The sub-command `doctor`."""

    name = "doctor"
    help = "check database, schema, Redis and adapters; exits with 1 if something must be mended"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """It takes no arguments: it reads the same settings as the processes."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Look at everything and print one line for each thing seen."""
        settings = load_settings()
        findings = list(_database(settings))
        for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
            findings += _others(point.name, point.load, settings)
        for one in findings:
            print(f"{one.level:<6} {one.subject:<12} {one.sentence}")
        return 1 if any(one.level == "wrong" for one in findings) else 0


def _others(name: str, load: Callable[[], object], settings: Settings) -> Iterable[Finding]:
    try:
        check = load()
        assert callable(check)
        return [Finding(level, subject, sentence) for level, subject, sentence in check(settings)]
    except ImportError as error:
        return [Finding("note", name, f"not installed here ({error.name})")]
    except AcuseError as error:
        return [Finding("wrong", name, str(error))]
    except Exception as error:  # noqa: BLE001  # a third party's check that fails is a finding, and takes no other down
        return [Finding("wrong", name, f"its check failed: {type(error).__name__}: {error}")]


def _database(settings: Settings) -> Iterator[Finding]:
    engine = sync_engine(settings.database_url, pool_size=2, name="acuse doctor")
    try:
        yield from _looked_at(engine)
    except SQLAlchemyError as error:
        yield Finding("wrong", "database", f"does not answer: {str(getattr(error, 'orig', error)).splitlines()[0]}")
    except AcuseError as error:
        yield Finding("wrong", "schema", str(error))
    finally:
        engine.dispose()


def _looked_at(engine: Engine) -> Iterator[Finding]:
    between = look_between(engine)
    with engine.connect() as connection:
        server = connection.execute(_NUMBERS).one()
        level = "ok" if server.version >= 150000 else "wrong"
        yield Finding(level, "database", f"PostgreSQL {server.version // 10000}; 15 or newer is needed")
        yield Finding("ok" if between is Between.NOTHING else "note", "database", between.value)
        if server.commit == "off":
            yield Finding(
                "note", "database", "synchronous_commit is off: dispatch and settle set it on; your business commits do not"
            )
        ledger = check_schema(connection)
        yield Finding("ok", "schema", f"as this version knows it; ledger {ledger}")
        if old := holders(connection, OLDEST_TRANSACTION_SECONDS):
            yield Finding("note", "database", _kept_by(old))
        month = connection.execute(
            text("select 'acuse.ledger_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMM')")
        ).scalar_one()
        ahead = connection.execute(_MONTHS, {"this_month": month}).scalar_one()
        level = "ok" if ahead >= 3 else "wrong"
        yield Finding(level, "partitions", f"{ahead} months ahead; the recover loop makes them, run one (acuse relay)")
        numbers = connection.execute(_HELD).one()
        level = "note" if numbers.held or numbers.incidents else "ok"
        yield Finding(
            level,
            "operations",
            f"{numbers.unresolved} unresolved, {numbers.held} held for a person, {numbers.incidents} incidents open, "
            f"{numbers.outbox} messages in the outbox",
        )


def _kept_by(old: list[Holder]) -> str:
    """Who keeps dead rows, so that somebody can be asked to end it."""
    one = old[0]
    who = f"session {one.pid}" if one.pid else "the prepared transaction"
    what = f"{who} ({one.application or 'no name'}, role {one.role}, {one.state})"
    others = f", and {len(old) - 1} more" if len(old) > 1 else ""
    return f"{what} has a transaction open for {one.seconds:.0f} s{others}: dead rows pile up in the outbox until it ends"


doctor = DoctorCommand()
