"""Carrying one claimed operation out: prepare, dispatch, send, settle; and in doubt: look up, record, decide."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog

from acuse.protocol import (
    Accepted,
    Basis,
    Concerns,
    Confirm,
    NotSent,
    Outcome,
    Reject,
    Requeue,
    Retry,
    Review,
    State,
    Verdict,
    decide,
    settlement,
)
from acuse.protocol.outcome import Health, health
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched, chain_taken
from acuse.store.evidence import View
from acuse.store.failure import worth_repeating
from acuse_adapters.engine import call, pace
from acuse_adapters.engine.book import Book, firmly
from acuse_adapters.engine.counters import Counters
from acuse_adapters.engine.moment import Moment, Moments
from acuse_adapters.engine.opening import Unreadable, open_intent
from acuse_adapters.port import Adapter, AdapterAction, Operation, Registry

__all__ = ["Carrier"]

LOOK_AGAIN_SECONDS = 1.0
"""An operation that waited for room for longer since its claim asks once more whether its account rests."""

_log = structlog.get_logger(__name__)


class Carrier:
    """Takes a claimed operation as far as it goes now. Every step that changes the ledger runs to its end, whoever cancels us."""

    def __init__(self, book: Book, registry: Registry, counters: Counters, moments: Moments) -> None:
        self._book = book
        self._registry = registry
        self._counters = counters
        self._moments = moments
        self.stopping = False
        """Once true, nothing more is dispatched and nothing leaves."""

    async def carry(self, claimed: Claimed) -> None:
        """Carry it out, as far as it goes."""
        if self.stopping:
            await self.give_back(claimed)
            return
        served = self._registry.find(claimed.action)
        if served is None:
            self._counters.deferred.labels(why="not_mine").inc()
            await self._defer(claimed, due=pace.not_mine(), progress=True)
            return
        adapter, declared = served
        operation = open_intent(claimed, declared)
        if isinstance(operation, Unreadable):
            await self._hold(claimed, operation)
        elif claimed.state is State.PREPARED:
            await self._first(claimed, adapter, declared, operation, None, None)
        else:
            await self._doubt(claimed, adapter, declared, operation)

    async def give_back(self, claimed: Claimed) -> None:
        """End the claim before anything left: the operation may be taken again at once."""
        await self._defer(claimed, due=timedelta(0), progress=True)

    async def _defer(self, claimed: Claimed, **how: Any) -> None:  # noqa: ANN401  # the keywords of store.claim.defer
        kept, _ = await firmly(self._book.defer(claimed, **how))
        if not kept:  # the claim was lost meanwhile: the late write changed nothing
            self._counters.prevented.labels(kind="fenced").inc()

    async def _hold(self, claimed: Claimed, unreadable: Unreadable) -> None:
        self._counters.deferred.labels(why="held").inc()
        _log.error("operation_held", why=unreadable.why)
        if unreadable.incident is not None:
            await firmly(self._book.incident(claimed.id, unreadable.incident, {}))
        await self._defer(claimed, held=unreadable.why)

    async def _first(
        self,
        claimed: Claimed,
        adapter: Adapter,
        declared: AdapterAction[Any],
        operation: Operation[Any],
        basis: Basis | None,
        version: int | None,
    ) -> None:
        """Prepare, then attempt. A repeat comes here too when no attempt is on record whose pin it could send again."""
        if declared.prepare_step is not None and await self._rests(claimed):
            return
        deadline = declared.contract.deadline.total_seconds()
        # Its claim must outlast the deadline once more after this.
        seconds = min(deadline, max(self._book.lease.total_seconds() - deadline - 1, 1))
        began = time.monotonic()
        prepared = await call.prepare(adapter, declared, operation, seconds)
        if isinstance(prepared, NotSent):
            if health(prepared) is Health.DOWN:
                await self._found_down(claimed, timedelta(seconds=time.monotonic() - began))
            await self._put_off(claimed, prepared)
        else:
            await self._moments(Moment.PREPARED, claimed)
            await self._attempt(claimed, adapter, declared, replace(operation, pin=prepared), basis, version)

    async def _rests(self, claimed: Claimed) -> bool:
        """Whether the account takes nothing now: a prepare calls its provider too. The claim has looked; later we look again."""
        if not claimed.account_rests and time.monotonic() - claimed.taken_at < LOOK_AGAIN_SECONDS:
            return False
        gate, _ = await firmly(self._book.rest_with_account(claimed))
        if gate is None:
            return False
        self._counters.gated.labels(gate=gate).inc()
        _log.info("not_prepared", gate=gate)
        return True

    async def _found_down(self, claimed: Claimed, took: timedelta) -> None:
        try:
            await firmly(self._book.prepare_found_down(claimed, took))
        except Exception:  # noqa: BLE001  # the breaker opens by the next ones; this operation is put off all the same
            _log.warning("breaker_not_told", exc_info=True)

    async def _put_off(self, claimed: Claimed, why: NotSent) -> None:
        self._counters.deferred.labels(why="prepare").inc()
        _log.info("prepare_put_off", why=why.reason)
        rest = pace.rest(why)
        if rest is not None:
            await firmly(self._rest(claimed, why, rest))
        # A provider that is away or asks for patience is no failure of this operation, however long that takes.
        patient = why.account_fault or why.retry_after is not None or claimed.handovers > pace.FULL_BACKOFF or self.stopping
        progress = patient and not isinstance(why, call.Broken)
        await self._defer(claimed, due=pace.unprepared(why, claimed.handovers), progress=progress)

    async def _rest(self, claimed: Claimed, why: NotSent, rest: timedelta) -> None:
        self._say_rest(claimed, why, rest)
        await self._book.pause(claimed, rest, why.reason)

    def _say_rest(self, claimed: Claimed, why: NotSent, rest: timedelta) -> None:
        say = _log.error if why.account_fault else _log.warning
        event = "account_fault" if why.account_fault else "account_rests"
        say(event, account=claimed.account, why=why.reason, seconds=rest.total_seconds())

    async def _doubt(self, claimed: Claimed, adapter: Adapter, declared: AdapterAction[Any], operation: Operation[Any]) -> None:
        view = await self._looked(claimed, adapter, declared, operation)
        if view is None or view.operation.state.final:
            return
        verdict = self._decided(declared, view)
        if isinstance(verdict, Retry):
            step = self._attempt if claimed.pin is not None else self._first
            await step(claimed, adapter, declared, operation, verdict.basis, view.version)
            return
        if not await self._apply(claimed, view, verdict):
            await self.give_back(claimed)  # it judged something that has changed: decide again

    async def _concluded(self, claimed: Claimed, declared: AdapterAction[Any]) -> None:
        """Decide about what is prepared again although it happened, from what is on record. The claim has ended."""
        view = await self._book.view(claimed.id)
        if view is None or view.operation.state.final:
            return
        verdict = self._decided(declared, view)
        if isinstance(verdict, Confirm):
            await self._apply(claimed, view, verdict)
        elif isinstance(verdict, Review) and verdict.incident is not None:  # what was found is contradicted too
            await firmly(self._book.incident(claimed.id, verdict.incident, {}))

    def _decided(self, declared: AdapterAction[Any], view: View) -> Verdict:
        verdict = decide(view.operation, view.attempts, declared.contract, view.findings, view.at)
        _log.info("verdict", verdict=type(verdict).__name__.lower(), why=verdict.reason)
        return verdict

    async def _apply(self, claimed: Claimed, view: View, verdict: Verdict) -> bool:
        """Write a verdict down, and count it. False: the record has changed since `view`."""
        applied, _ = await firmly(self._book.apply(claimed.id, view.version, verdict))
        if applied is None:
            return False
        if isinstance(verdict, Confirm):
            self._settled(claimed, "confirmed", "evidence")
            self._counters.prevented.labels(kind="evidence").inc()
        elif isinstance(verdict, Reject):
            self._settled(claimed, "rejected", "evidence")
        elif isinstance(verdict, Requeue):
            self._counters.deferred.labels(why="absent").inc()
        return True

    async def _looked(
        self, claimed: Claimed, adapter: Adapter, declared: AdapterAction[Any], operation: Operation[Any]
    ) -> View | None:
        view = await self._book.view(claimed.id)
        lookup = declared.contract.lookup
        if view is None or lookup is None or (lookup.needs_provider_id and not view.operation.has_provider_id):
            return view
        # The finding carries the database's time from before the look-up began, and the attempt that it speaks of.
        finding = await call.look_up(adapter, declared, operation)
        attempt = view.attempts[-1].number if view.attempts else 0
        await self._moments(Moment.LOOKED, claimed)
        source = f"fence-{claimed.fence}"
        await firmly(self._book.record(claimed.id, "lookup", source, attempt, finding, view.at))
        await self._moments(Moment.RECORDED, claimed)
        return await self._book.view(claimed.id)

    async def _attempt(
        self,
        claimed: Claimed,
        adapter: Adapter,
        declared: AdapterAction[Any],
        operation: Operation[Any],
        basis: Basis | None,
        version: int | None,
    ) -> None:
        if self.stopping:
            await self.give_back(claimed)
            return
        asked = time.monotonic()
        dispatched, cancelled = await firmly(self._dispatch(claimed, declared, operation, basis, version))
        if dispatched is None:
            return
        left = declared.contract.deadline.total_seconds() - (time.monotonic() - asked)
        if cancelled or self.stopping or left <= 0:
            outcome: Outcome = NotSent("shut down, or out of time, before anything was sent", concerns=Concerns.OPERATION)
        else:
            outcome = await self._sent(claimed, adapter, declared, operation, left)
        await self._save(claimed, dispatched, outcome)

    async def _dispatch(
        self,
        claimed: Claimed,
        declared: AdapterAction[Any],
        operation: Operation[Any],
        basis: Basis | None,
        version: int | None,
    ) -> Dispatched | None:
        try:
            dispatched = await self._book.dispatch(
                claimed, declared.contract, key=operation.key, pin=operation.pin, basis=basis, version=version
            )
        except Exception as error:  # noqa: BLE001  # whatever it was, the dispatch may be committed
            if chain_taken(error):
                await self._defer(claimed, waiting="ordering", progress=True)
                self._counters.gated.labels(gate="ordering_waiting").inc()
                return None
            _log.warning("dispatch_in_doubt", exc_info=True)
            await self._undo_dispatch(claimed, blame=not worth_repeating(error))
            return None
        if dispatched.open:
            await self._moments(Moment.DISPATCHED, claimed)
            return dispatched
        self._counters.gated.labels(gate=dispatched.gate).inc()
        if dispatched.gate == "found_before":
            await self._concluded(claimed, declared)
            return None
        if dispatched.gate in {"fenced", "moved"}:
            self._counters.prevented.labels(kind="fenced").inc()
        if dispatched.state is State.REJECTED:
            self._settled(claimed, "rejected", "gate")
        _log.info("not_dispatched", gate=dispatched.gate)
        return None

    async def _undo_dispatch(self, claimed: Claimed, *, blame: bool) -> None:
        """The reply to the dispatch was lost. Whatever was committed, this worker has sent nothing, and says so."""
        committed = await self._book.dispatched_by(claimed)
        if committed is None:
            await self._defer(claimed, due=pace.undispatched(claimed.handovers), progress=not blame)
        else:
            lost = NotSent("the reply to the dispatch was lost; nothing was sent", concerns=Concerns.OPERATION)
            await self._save(claimed, committed, lost)

    async def _sent(
        self, claimed: Claimed, adapter: Adapter, declared: AdapterAction[Any], operation: Operation[Any], seconds: float
    ) -> Outcome:
        self._counters.in_the_air.inc()
        try:
            with self._counters.seconds.labels(provider=claimed.provider).time():
                outcome = await call.send(adapter, declared, operation, seconds)
        finally:
            self._counters.in_the_air.dec()
        await self._moments(Moment.ANSWERED, claimed)
        return outcome

    async def _save(self, claimed: Claimed, dispatched: Dispatched, outcome: Outcome) -> None:
        kind = type(outcome).__name__.lower()
        pause = None
        if isinstance(outcome, NotSent) and (pause := pace.rest(outcome)) is not None:
            self._say_rest(claimed, outcome, pause)
        due = pace.after(outcome, dispatched.attempt)
        saved, _ = await firmly(self._book.settle(claimed, dispatched, outcome, due=due, pause=pause))
        await self._moments(Moment.SETTLED, claimed)
        self._counters.attempts.labels(provider=claimed.provider, outcome=kind).inc()
        state = settlement(outcome, dispatched.earlier_doubts).state
        if saved == "late":
            self._counters.prevented.labels(kind="fenced").inc()
        elif state.final:
            self._settled(claimed, state.value, "receipt" if isinstance(outcome, Accepted) else "refusal")
        if isinstance(outcome, Accepted) and outcome.receipt.replayed:
            self._counters.prevented.labels(kind="replay").inc()
        _log.info("attempt_settled", outcome=kind, saved=saved, attempt=dispatched.attempt, why=getattr(outcome, "reason", None))

    def _settled(self, claimed: Claimed, state: str, by: str) -> None:
        self._counters.settled.labels(provider=claimed.provider, state=state, by=by).inc()
