"""A run of effects in memory against the real engine with the scripted provider, for each behaviour and each kind of contract."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from bench import Bench
from scripted_provider import Hold, Note, Provider, accept, contract, key
from stateful.clock import _AGE, _UNGUARDED

from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    Consistency,
    Finding,
    Found,
    Lookup,
    Marker,
    NaturalUpsert,
    Outcome,
    Receipt,
    Refused,
    RefusedBefore,
    RetryContract,
    vendor,
)
from acuse.store import recover
from acuse.testing import MemoryOutbox
from acuse.testing import behaviour as behaviours
from acuse.testing.behaviour import Behaviour
from acuse_adapters.port import Operation

LAG = timedelta(seconds=100)
DEADLINE = 30.0
"""Longer than a test takes: a call that hangs is not given up by itself."""

_MARKED: dict[str, Any] = {"marker": Marker(where="note.ref"), "max_in_flight": timedelta(seconds=1)}
_STRONG = Lookup(by="ref", consistency=Consistency.STRONG)
_LAGGING = Lookup(by="ref", consistency=Consistency.EVENTUAL, visible_within=vendor(LAG))
CONTRACTS = {
    "bare": contract(DEADLINE),
    "key": contract(DEADLINE, key=key(), max_in_flight=timedelta(seconds=1)),
    "strong": contract(DEADLINE, lookup=_STRONG, **_MARKED),
    "lags": contract(DEADLINE, lookup=_LAGGING, **_MARKED),
    "upsert": contract(DEADLINE, natural_upsert=NaturalUpsert(by="ref", precondition="If-Match"), lookup=_STRONG, **_MARKED),
}
BEHAVIOURS = [it for name in behaviours.__all__ if isinstance(it := getattr(behaviours, name), Behaviour)]
WAITS = [0, 10, 400, 5000]
"""Seconds that pass between two rounds; what comes due meanwhile waits for the round, in both."""

ROLES = ("head", "next of its chain", "needs it", "stands alone")
WAITS_AS = {"next of its chain": "ordering", "needs it": "dependency"}
_FIELDS = ("state", "doubts", "attempts", "outcome_code", "waiting", "put_off")


def stage_on(bench: Bench) -> list[UUID]:
    head = bench.stage(target="head", ordering_key="chain", on_settled="host/told")
    behind = bench.stage(target="next", ordering_key="chain")
    needs = bench.stage(target="needs", after=[{"id": head.hex}])
    return [head, behind, needs, bench.stage(target="alone")]


def stage_in(outbox: MemoryOutbox) -> None:
    head = outbox.stage(None, Note(ref="head"), effect_key="1", ordering_key="chain", on_settled="host/told")  # type: ignore[arg-type]
    outbox.stage(None, Note(ref="next"), effect_key="2", ordering_key="chain")  # type: ignore[arg-type]
    outbox.stage(None, Note(ref="needs"), effect_key="3", after=head)  # type: ignore[arg-type]
    outbox.stage(None, Note(ref="alone"), effect_key="4")  # type: ignore[arg-type]


class World:
    """The scripted provider, told in its own words to do what a behaviour says."""

    def __init__(self, bench: Bench, promised: RetryContract, met: Behaviour) -> None:
        self.bench, self.met, self.age = bench, met, timedelta(0)
        self.hold = Hold(inner=accept)
        self.copies, self.seen_at = 0, timedelta(0)
        bench.provider.will(self.hold if not met.returns else self.meet)
        bench.provider.on_look_up = self.look_up
        self.has_key = promised.key is not None

    async def meet(self, provider: Provider, operation: Operation[Any]) -> Outcome:
        self.copies, self.seen_at = self.met.copies, LAG if self.met.late else timedelta(0)
        provider.objects[operation.key] += self.met.copies
        return self.met.answer or Accepted(Receipt("N-1", "1", "req-1"))

    async def look_up(self, operation: Operation[Any]) -> Finding | None:
        if operation.target != "head" or not self.met.returns:
            return None
        objects = self.bench.provider.objects[operation.key]
        if objects and self.age >= self.seen_at:
            return Found("N-1", content_matches=self.met.ours, copies=objects)
        if self.met.remembers:
            said = self.met.answer
            return (
                RefusedBefore(said.code, said.reason)
                if isinstance(said, Refused)
                else RefusedBefore("r", "the provider refused it")
            )
        return Absent(target_unchanged=True)

    def pass_time(self, seconds: float) -> None:
        self.age += timedelta(seconds=seconds)
        with self.bench.sync.begin() as connection:
            connection.execute(_UNGUARDED)
            connection.execute(_AGE, {"tenants": [self.bench.tenant], "step": timedelta(seconds=seconds)})

    async def round(self, operations: list[UUID]) -> None:
        """Everything that is due is handed over and carried out, and what that wakes; what comes due meanwhile waits."""
        with self.bench.sync.begin() as connection:
            recover.expire_claims(connection, 10_000)
            recover.hand_over_due(connection, 10_000)
        for _ in range(3):
            rows = [self.bench.row(one) for one in operations]
            at_once = [row.id for row in rows if row.outcome_code == "not_found_after_bound" and row.status == "prepared"]
            ready = [row.id for row in rows if row.settled_at is None and (row.due_at is None or row.id in at_once)]
            if not ready:
                break
            for one in ready:  # one after another, as a test's run takes them
                await self.bench.carry(one)


def _timeless(said: str | None) -> str | None:
    return None if said is None else re.sub(r"N-\w+|R-\w+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "…", said)


def in_fact(bench: Bench, operations: list[UUID]) -> list[dict[str, Any]]:
    shown = []
    for role, operation in zip(ROLES, operations, strict=True):
        row = bench.row(operation)
        state = {"role": role, "state": row.status, **{name: getattr(row, name) for name in _FIELDS if name != "state"}}
        state |= {"held": _timeless(row.held), "reason": _timeless(row.reason)}
        if role in WAITS_AS and row.put_off == "account_paused":
            # An adapter that prepares asks first whether the account rests, then whose turn it is. In a test nothing is prepared.
            state |= {"waiting": WAITS_AS[role], "put_off": None}
        state["has a result"] = row.result_id is not None
        state["incidents"] = [it.kind for it in bench.rows("incident", operation)]
        shown.append(state)
    shown[0]["told"] = [(it["kwargs"]["state"], it["kwargs"]["outcome_code"]) for it in bench.told(operations[0])]
    return shown


def in_memory(outbox: MemoryOutbox) -> list[dict[str, Any]]:
    shown = []
    for role, record in zip(ROLES, outbox.staged(), strict=True):
        state = {"role": role, **{name: getattr(record, name) for name in _FIELDS}}
        state |= {
            "held": _timeless(record.held),
            "reason": _timeless(record.reason),
            "has a result": record.result_id is not None,
        }
        state["incidents"] = [it.kind for it in outbox.incidents if it.operation_id == record.operation_id]
        shown.append(state)
    shown[0]["told"] = [(it.kwargs["state"], it.kwargs["outcome_code"]) for it in outbox.told]
    return shown


PLAIN = [it for it in BEHAVIOURS if it.returns and not isinstance(it.answer, Ambiguous)]
"""What leaves no doubt: no contract changes what becomes of it."""

CASES = [
    pytest.param(met, promised, id=f"{met}-{name}")
    for name, promised in CONTRACTS.items()
    for met in BEHAVIOURS
    if (met not in PLAIN or name == "bare") and not (met.late and promised.lookup == _STRONG)
]


@pytest.mark.parametrize(("met", "promised"), CASES)
async def test_each_behaviour_leads_where_the_engine_leads(bench: Bench, promised: RetryContract, met: Behaviour) -> None:
    # Given the same operations in both: one that meets the behaviour, one behind it in a chain, one that needs it, one beside it
    bench.promise(promised)
    operations, world = stage_on(bench), World(bench, promised, met)
    outbox = MemoryOutbox(contracts={Note.declared.name: promised})
    stage_in(outbox)

    # When the first round goes, and time passes, and they come again
    hanging: asyncio.Task[None] | None = None
    for number, seconds in enumerate(WAITS):
        if number:
            world.pass_time(seconds)
            outbox.advance(timedelta(seconds=seconds))
        elif not met.returns:
            hanging = asyncio.create_task(bench.carry(operations[0]))
            await world.hold.arrived.wait()
        await world.round(operations)
        outbox.run_effects({(Note, "head"): met} if not number else {})

        # Then both stand at the same place, each time
        assert in_memory(outbox) == in_fact(bench, operations), f"after {sum(WAITS[: number + 1])} s"
    if hanging is not None:
        world.hold.released.set()
        await hanging
