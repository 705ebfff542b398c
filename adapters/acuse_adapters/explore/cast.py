"""Everybody who works on the ledger: real relays, workers and recover loops, and what hosts, webhooks and operators call."""

import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import greenlet_spawn

from acuse import Approvals, Ledger
from acuse.errors import AcuseError
from acuse.identifier import uuid_of
from acuse.protocol import Basis, Confirm, Found, Reject, RetryContract, State, Verdict, decide
from acuse.store import evidence
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.review import Act, operate, possible
from acuse_adapters.engine import Book, Counters
from acuse_adapters.engine import Engine as Worker
from acuse_adapters.explore.broker import Broker, Delivery
from acuse_adapters.explore.ground import LEDGER
from acuse_adapters.explore.promise import CONTRACTS, KINDS, LEASE_SECONDS
from acuse_adapters.explore.shop import Effect, Shop, ShopAdapter
from acuse_adapters.explore.turn import Process, Turns
from acuse_adapters.explore.wish import TENANT, WORKFLOW, Wish
from acuse_adapters.port import Registry

__all__ = ["Cast"]

T = TypeVar("T")

GRACE_SECONDS: Final = 2.0
MOST_VERDICTS: Final = 5
ROUND_SECONDS: Final = 5

_SEEN: Final = text("select version, status from acuse.operation where id = :id")


class _Book(Book):
    """The worker's own book: its statements take turns, and no verdict may be applied to what it did not judge."""

    def __init__(self, engine: Engine, turns: Turns) -> None:
        super().__init__(None, timedelta(seconds=LEASE_SECONDS))  # type: ignore[arg-type]  # its one use is replaced below
        self._sync = engine
        self._turns = turns

    async def _once(self, step: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._sync.begin() as connection:
                return step(connection)

        return await greenlet_spawn(run)

    async def apply(self, operation: UUID, version: int, verdict: Verdict) -> int | None:
        new = await super().apply(operation, version, verdict)
        self._held_against(version, new)
        return new

    async def dispatch(
        self,
        claimed: Claimed,
        contract: RetryContract,
        *,
        key: str,
        pin: Mapping[str, Any],
        basis: Basis | None = None,
        version: int | None = None,
    ) -> Dispatched:
        done = await super().dispatch(claimed, contract, key=key, pin=pin, basis=basis, version=version)
        if basis is not None and done.open:
            self._held_against(version, done.version)
        return done

    def _held_against(self, judged: int | None, new: int | None) -> None:
        if new is not None and judged is not None and new != judged + 1:
            self._turns.accuse(f"a verdict on version {judged} was applied to version {new - 1}")


class Cast:
    """Who there is. A name that was killed is played by another from then on."""

    def __init__(
        self, engine: Engine, turns: Turns, wishes: tuple[Wish, ...], counters: Counters, loops: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.turns, self.wishes = turns, {wish.name: wish for wish in wishes}
        self.shop, self.broker = Shop(turns), Broker(turns)
        self.ids: dict[str, str] = {}  # of operations that are committed, by their names
        self.approvals: dict[str, str] = {}
        self.committed: dict[str, int] = {}  # at which step: operations, revocations, cancelled workflows
        self.accepted: dict[str, int] = {}
        self.said: set[tuple[str, str]] = set()  # what operators settled
        self.processes: dict[str, Process] = {}
        self._engine, self._counters = engine, counters
        self._registry = Registry([ShopAdapter(self.shop)])
        self._workers: dict[str, Worker] = {}
        self._loops = loops
        self._running: dict[str, Any] = {}
        self._rounds: dict[str, tuple[int, float]] = {}
        for name in ("worker1", "worker2", "relay1", "relay2", "recover1", "recover2", "people"):
            self.bring(name)

    def bring(self, name: str) -> None:
        """Let a process begin, in place of one that was killed or has stopped."""
        self.processes[name] = Process(name)
        if name.startswith("worker"):
            book = _Book(self._engine, self.turns)
            self._workers[name] = Worker(book, self._registry, ledger=LEDGER, counters=self._counters)
        elif name != "people":
            self._running[name] = self._loops[name.rstrip("12")](
                self._engine, self.broker, clock=lambda: self.turns.clock.seconds
            )

    def kill(self, name: str) -> None:
        """Kill a process, and let another begin."""
        self.turns.kill(self.processes[name])
        self.broker.release(name)
        self.bring(name)

    # relay, recover, worker

    def loop(self, name: str) -> None:
        """Let a relay or a recover loop make a round."""
        running = self._running[name]
        self._rounds[name.rstrip("12")] = (self.turns.commits, self.turns.clock.seconds)
        self._start(name, name, running.run_once)

    def wants(self, name: str) -> bool:
        """Whether a loop can have something to do: since a round of its kind something was committed, or time has passed."""
        commits, seconds = self._rounds.get(name.rstrip("12"), (0, 0.0))
        return self.turns.commits > commits if name.startswith("relay") else self.turns.clock.seconds > seconds + ROUND_SECONDS

    def deliver(self, name: str, message: Delivery) -> None:
        """Let a worker fetch a message."""
        worker = self._workers[name]
        message.fetched_by = name
        self.turns.start(self.processes[name], f"{name}.{message.name}", self._perform(worker, message))

    def stop(self, name: str) -> None:
        """Let a worker end in an orderly way."""
        self.turns.start(self.processes[name], f"{name}.stop", self._end(name, self._workers[name]))

    async def _perform(self, worker: Worker, message: Delivery) -> None:
        with contextlib.suppress(DBAPIError):
            await worker.perform(message.ledger, message.operations)
        self.broker.acknowledge(message)

    async def _end(self, name: str, worker: Worker) -> None:
        process = self.processes[name]
        await worker.stop(GRACE_SECONDS)
        process.dead = True
        self.broker.release(name)
        self.bring(name)

    # hosts

    def stage(self, wish: Wish) -> None:
        """Let a host stage a wish. If the end of another that asks for the same is not known, nothing is staged."""

        def run() -> None:
            with self._engine.begin() as connection:
                after = [self.ids[name] for name in wish.after]
                staged = wish.stage(connection, self.approvals.get(wish.name), after)
                if not staged.in_doubt:
                    self.turns.names[staged.operation_id] = wish.name
            if not staged.in_doubt:
                self.ids[wish.name] = staged.operation_id
                self.committed.setdefault(wish.name, self.turns.steps)

        self._people(f"host.{wish.name}", run)

    def revoke(self, wish: Wish) -> None:
        """Let somebody revoke an approval."""
        self._people(
            f"revoker.{wish.name}",
            lambda: self._commit(
                f"revoked {wish.name}",
                lambda c: Approvals(tenant=TENANT).revoke(c, self.approvals[wish.name], by="alice", reason="no"),
            ),
        )

    def cancel(self, wish: Wish) -> None:
        """Let a host cancel an operation."""
        self._people(
            f"canceller.{wish.name}",
            lambda: self._commit("", lambda c: self._ledger.cancel(c, self.ids[wish.name], by="bob", reason="no")),
        )

    def cancel_workflow(self) -> None:
        """Let a host cancel the workflow."""
        self._people(
            "canceller",
            lambda: self._commit("workflow", lambda c: self._ledger.cancel_workflow(c, WORKFLOW, by="bob", reason="no")),
        )

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self._engine, tenant=TENANT)

    def _commit(self, what: str, step: Callable[[Connection], object]) -> None:
        with self._engine.begin() as connection:
            step(connection)
        self.committed.setdefault(what, self.turns.steps)

    # what comes from outside

    def webhook(self, effect: Effect) -> None:
        """Let the provider tell of an effect."""
        self._people(f"webhook.{effect.result_id}", lambda: self._told(effect))

    def _told(self, effect: Effect) -> None:
        identity, name = uuid_of(effect.operation, prefix="op", field="operation"), self.turns.names[effect.operation]
        contract = CONTRACTS[KINDS[self.wishes[name].kind].declared.name]
        with self._engine.begin() as connection:
            evidence.record(
                connection, identity, "webhook", effect.result_id, 0, Found(effect.result_id), self.turns.clock.moment
            )
        for _ in range(MOST_VERDICTS):
            with self._engine.begin() as connection:
                view = evidence.view(connection, identity)
            if view is None or view.operation.state.final:
                return
            verdict = decide(view.operation, view.attempts, contract, view.findings, view.at)
            if not isinstance(verdict, Confirm | Reject):
                return
            with self._engine.begin() as connection:
                new = evidence.apply_verdict(connection, identity, view.version, verdict)
            if new is not None:
                if new != view.version + 1:
                    self.turns.accuse(f"a webhook's verdict on version {view.version} was applied to version {new - 1}")
                return

    # operators

    def operate(self, name: str, act: Act) -> None:
        """Let an operator look at an operation, and act if that is possible and true."""
        self._people(f"operator.{name}.{act}", lambda: self._operated(name, act))

    def _operated(self, name: str, act: Act) -> None:
        operation = self.ids[name]
        with self._engine.begin() as connection:
            seen = connection.execute(_SEEN, {"id": uuid_of(operation, prefix="op", field="operation")}).one()
        effects = self.shop.effects_of(operation)
        untrue = (act is Act.CONFIRM and not effects) or (
            act is Act.REJECT and (bool(effects) or self.shop.may_still_happen(operation))
        )
        if act not in possible(State(seen.status)) or untrue:
            return
        result = effects[0].result_id if act is Act.CONFIRM else None
        with self._engine.begin() as connection:
            done = operate(connection, operation, act, version=seen.version, actor="eve", reason="so I saw", result_id=result)
        if done.version != seen.version + 1:
            self.turns.accuse(
                f"an operator saw version {seen.version} of {name}, and {act} was done to version {done.version - 1}"
            )
        self.accepted[name] = self.accepted.get(name, 0) + (act is Act.ACCEPT_RISK)

    # all of them

    def _people(self, strand: str, work: Callable[[], object]) -> None:
        self._start("people", strand, work)

    def _start(self, name: str, strand: str, work: Callable[[], object]) -> None:
        self.turns.start(self.processes[name], strand, self._worked(work))

    async def _worked(self, work: Callable[[], object]) -> None:
        try:
            await greenlet_spawn(work)
        except (AcuseError, DBAPIError) as error:
            self.turns.tell(f"gives up: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            self.turns.accuse(f"{type(error).__name__}: {error}")
