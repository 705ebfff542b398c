"""A simulator as seen by a test or a demonstration: start it, steer it, kill it, and ask what really happened."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict

from acuse_adapters.simulators.gate import Phase
from acuse_adapters.simulators.plan import FaultPlan

__all__ = ["Held", "SimulatorProcess", "Store", "StoredEffect", "StoredRequest"]

CONTROL_SECONDS = 10.0
"""How long a control call may take, besides the time that it was asked to wait."""


class StoredEffect(TypedDict):
    """One application of a write."""

    marker: str | None
    kind: Literal["case_closed", "case_changed", "note", "ticket", "comment", "email"]
    id: str
    account: str
    target: str
    at: str
    request: int | None


class StoredRequest(TypedDict):
    """One write that arrived; `applied` when it took effect, now or late."""

    n: int
    marker: str | None
    method: str
    path: str
    fault: str | None
    applied: bool
    at: str


class Store(TypedDict):
    """The ground truth. `pending`: writes that may still take effect; `reads`: look-ups over HTTP since the start."""

    effects: list[StoredEffect]
    requests: list[StoredRequest]
    pending: int
    reads: int


class Held(TypedDict):
    """A write that is stopped at a hold."""

    marker: str | None
    phase: Phase
    request: int


class SimulatorProcess:
    """One simulator process. A restart keeps its ports, its ground truth and the plan that was posted to it.

    With `die_with_parent` on Linux it dies with the thread that started it: start it from a thread that stays.
    """

    def __init__(
        self,
        simulator: Literal["crm", "ticketing", "email"],
        state: Path,
        *,
        plan: FaultPlan | Mapping[str, Any] | None = None,
        seed: int = 0,
        host: str = "127.0.0.1",
        die_with_parent: bool = True,
    ) -> None:
        self.simulator = simulator
        self.state = state
        self.host = host
        self._plan = None if plan is None else _plan_json(plan)
        self._seed = seed
        self._die_with_parent = die_with_parent
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}

    @property
    def url(self) -> str:
        """Base address of its HTTP, without a slash at the end."""
        return f"http://{self.host}:{self._ports['http']}"

    @property
    def http_port(self) -> int:
        """Port of its HTTP (email: the control interface)."""
        return self._ports["http"]

    @property
    def smtp_port(self) -> int:
        """Port of its SMTP; email only."""
        return self._ports["smtp"]

    @property
    def imap_port(self) -> int:
        """Port of its IMAP; email only."""
        return self._ports["imap"]

    @property
    def pid(self) -> int:
        """Process id. Raises RuntimeError when it is not started."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 20.0) -> Self:
        """Start it and wait until it is ready. Raises RuntimeError with what it said when it does not come up."""
        self.state.mkdir(parents=True, exist_ok=True)
        log = self.state / f"{self.simulator}.log"
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)
        line = self._first_line(timeout)
        if not line:
            self.kill()
            raise RuntimeError(f"the {self.simulator} simulator did not start: {log.read_text()[-2000:] or 'no reason'}")
        ready = json.loads(line)
        self._ports = {name: port for name, port in ready.items() if name != "simulator"}
        return self

    def stop(self, timeout: float = 10.0) -> int:
        """End it with SIGTERM (SIGKILL after the timeout); returns its exit code. Does nothing when it is not started."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._reap()

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def restart(self) -> Self:
        """Start it again on the same ports; ends it first if it still runs."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def store(self) -> Store:
        """Everything that arrived and everything that took effect."""
        store: Store = self.call("GET", "/_sim/store")
        return store

    def effects(self, marker: str | None = None) -> list[StoredEffect]:
        """What took effect, of one marker or at all: more than one of a marker is a double, none is a loss."""
        return [effect for effect in self.store()["effects"] if marker in {None, effect["marker"]}]

    def requests(self, marker: str | None = None) -> list[StoredRequest]:
        """The writes that arrived, of one marker or at all."""
        return [request for request in self.store()["requests"] if marker in {None, request["marker"]}]

    def table(self, name: str) -> dict[str, dict[str, Any]]:
        """The provider's own rows by key: cases, notes, tickets, comments, keys or messages."""
        rows: dict[str, dict[str, Any]] = self.call("GET", f"/_sim/tables/{name}")["rows"]
        return rows

    def plan(self, plan: FaultPlan | Mapping[str, Any] | None = None, /, **fields: Any) -> None:  # noqa: ANN401
        """Put another plan in force, given whole or by its fields; without arguments nothing misbehaves any more."""
        self.call("POST", "/_sim/plan", json.loads(_plan_json(fields if plan is None else plan)))

    def hold(self, phase: Phase, *, marker: str | None = None, kind: str | None = None, skip: int = 0) -> None:
        """Stop the next write that matches, before it is applied or between that and its answer."""
        self.call("POST", "/_sim/hold", {"phase": phase, "marker": marker, "kind": kind, "skip": skip})

    def wait_held(self, timeout: float = 10.0) -> list[Held]:
        """The writes that are held, as soon as there is one. Raises TimeoutError when none comes."""
        held: list[Held] = self.call("GET", f"/_sim/held?timeout={timeout}", wait=timeout)["held"]
        if not held:
            raise TimeoutError(f"the {self.simulator} simulator held no write within {timeout} s")
        return held

    def release(self, marker: str | None = None, *, disarm: bool = False) -> int:
        """Let held writes go on; returns how many. `disarm` also forgets holds that caught nothing yet."""
        released: int = self.call("POST", "/_sim/release", {"marker": marker, "disarm": disarm})["released"]
        return released

    def advance(self, seconds: float) -> None:
        """Move its clock: lags, retentions and late applications come nearer by that much."""
        self.call("POST", "/_sim/clock", {"seconds": seconds})

    def change_case(self, account: str, case_id: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        """CRM: somebody else changes a case; returns the case."""
        case: dict[str, Any] = self.call("POST", f"/_sim/cases/{account}/{case_id}", fields)
        return case

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, wait: float = 0.0) -> Any:  # noqa: ANN401
        """A control call; the answer's JSON. Raises RuntimeError with the simulator's reason when it is refused."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=wait + CONTROL_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read().decode("utf-8", "replace")
            raise RuntimeError(f"{method} {path}: {error.code} {reason}") from error

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"the {self.simulator} simulator is not started")
        return self._process

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "acuse_adapters.simulators", self.simulator]
        command += ["--host", self.host, "--state", str(self.state), "--seed", str(self._seed)]
        for name, option in (("http", "--port"), ("smtp", "--smtp-port"), ("imap", "--imap-port")):
            command += [option, str(self._ports.get(name, 0))]
        if self._plan is not None:
            command += ["--plan", self._plan]
        return [*command, "--die-with-parent"] if self._die_with_parent else command

    def _first_line(self, timeout: float) -> bytes:
        stdout = self._running().stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], timeout)
        return stdout.readline() if ready else b""

    def _reap(self) -> int:
        process, self._process = self._running(), None
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return code


def _plan_json(plan: FaultPlan | Mapping[str, Any]) -> str:
    checked = plan if isinstance(plan, FaultPlan) else FaultPlan.model_validate(plan)
    return checked.model_dump_json(exclude_unset=True)
