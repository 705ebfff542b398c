"""The ground truth: what took effect, which writes arrived, and the provider's own rows, in one append-only file.

Each line is one JSON object and is flushed and synced before the client hears of it, so that a simulator killed with
SIGKILL knows after its restart everything that it had done. Lines: `{"request": …}` (a write arrived),
`{"effects": […], "rows": [[table, key, row or null], …]}` (it took effect; one line, so all of it or nothing),
`{"plan": …, "given": …}` (a plan came into force).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from acuse_adapters.simulators.fault import Fault

__all__ = ["Effect", "GroundTruth", "RequestRecord", "Row"]

Row = tuple[str, str, dict[str, Any] | None]
"""Table, key, and the row (None deletes it)."""


class Effect(BaseModel):
    """One application of a write: two effects with one marker are a double."""

    model_config = ConfigDict(frozen=True)

    marker: str | None
    kind: str
    id: str
    account: str
    target: str
    at: str
    request: int | None


class RequestRecord(BaseModel):
    """A write that arrived, with the fault that it got. `script` is the index of the script entry that decided."""

    model_config = ConfigDict(frozen=True)

    n: int
    marker: str | None
    method: str
    path: str
    fault: Fault | None
    script: int | None = None
    at: str


class GroundTruth:
    """Reads the file at start, ignores a last line cut short by a kill, appends from there on.

    Raises RuntimeError if another simulator has the same file open.
    """

    def __init__(self, path: Path) -> None:
        self.effects: list[Effect] = []
        self.requests: list[RequestRecord] = []
        self.plan_given: dict[str, Any] | None = None
        self.plan: dict[str, Any] | None = None
        self.plan_since = 0
        self._tables: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._applied: set[int] = set()
        self._markers: set[str] = set()
        self._refusing: set[str] = set()
        self._file = path.open("a+b", buffering=0)
        self._lock(path)
        self._load()

    def open_request(
        self, *, marker: str | None, method: str, path: str, fault: Fault | None, script: int | None, at: str
    ) -> int:
        """Record that a write arrived; returns its number, counted from 1."""
        record = RequestRecord(
            n=len(self.requests) + 1, marker=marker, method=method, path=path, fault=fault, script=script, at=at
        )
        self._write({"request": record.model_dump(mode="json")})
        return record.n

    def commit(self, *, effects: Sequence[Effect] = (), rows: Sequence[Row] = ()) -> None:
        """Record that something took effect, with the rows that it changed."""
        self._write({"effects": [effect.model_dump() for effect in effects], "rows": rows})

    def put_plan(self, plan: dict[str, Any], given: dict[str, Any]) -> None:
        """Record the plan in force, and the one that the process was started with."""
        self._write({"plan": plan, "given": given})

    def table(self, name: str) -> dict[str, dict[str, Any]]:
        """The rows of a table by key, in the order of their creation. Not to be changed in place."""
        return self._tables[name]

    def is_applied(self, marker: str | None) -> bool:
        """Whether this marker ever took effect."""
        return marker is not None and marker in self._markers

    def refuses_repeats(self, marker: str | None) -> bool:
        """Whether a write of this marker was given `refuse_repeat`."""
        return marker is not None and marker in self._refusing

    def report(self) -> dict[str, list[dict[str, Any]]]:
        """Effects and requests as the control interface shows them."""
        return {
            "effects": [effect.model_dump() for effect in self.effects],
            "requests": [
                record.model_dump(mode="json", exclude={"script"}) | {"applied": record.n in self._applied}
                for record in self.requests
            ],
        }

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise RuntimeError(f"{path} is in use by another simulator; give each its own --state") from error

    def _load(self) -> None:
        self._file.seek(0)
        whole = 0
        for line in self._file.read().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            self._take(json.loads(line))
            whole += len(line)
        self._file.truncate(whole)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")
        os.fsync(self._file.fileno())
        self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        if "request" in line:
            self._take_request(RequestRecord.model_validate(line["request"]))
        elif "plan" in line:
            self.plan, self.plan_given, self.plan_since = line["plan"], line["given"], len(self.requests)
        else:
            self._take_effects([Effect.model_validate(effect) for effect in line["effects"]])
            for table, key, row in line["rows"]:
                self._take_row(table, key, row)

    def _take_request(self, record: RequestRecord) -> None:
        self.requests.append(record)
        if record.fault is Fault.REFUSE_REPEAT and record.marker is not None:
            self._refusing.add(record.marker)

    def _take_effects(self, effects: list[Effect]) -> None:
        self.effects.extend(effects)
        self._applied.update(effect.request for effect in effects if effect.request is not None)
        self._markers.update(effect.marker for effect in effects if effect.marker is not None)

    def _take_row(self, table: str, key: str, row: dict[str, Any] | None) -> None:
        if row is None:
            self._tables[table].pop(key, None)
        else:
            self._tables[table][key] = row
