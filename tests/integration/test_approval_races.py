"""Decisions and dispatches that come at the same moment, on real connections."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from threading import Barrier
from uuid import UUID

import pytest
from approving import Asking
from bench import Bench
from racing import Racer
from scripted_provider import KEYED, Note, vanish
from sqlalchemy import Connection

from acuse import ApprovalState, Decision, State
from acuse.identifier import uuid_of

ROUNDS = 50


@pytest.fixture
def host(bench: Bench) -> Asking:
    return Asking(bench)


@pytest.mark.case("R092")
@pytest.mark.invariant(8)
@pytest.mark.parametrize(
    "answers", [(("ann", True), ("ann", True)), (("ann", True), ("bob", False))], ids=["the same person twice", "yes and no"]
)
async def test_of_two_answers_at_once_one_wins_and_the_other_sees_whose_it_was(
    bench: Bench, host: Asking, answers: tuple[tuple[str, bool], tuple[str, bool]]
) -> None:
    both, outcomes = Barrier(2), set()
    with ThreadPoolExecutor(2) as clicks, bench.sync.connect() as first, bench.sync.connect() as second:
        for number in range(ROUNDS):
            asked = host.ask(call=f"c-{number}", callback="host/decided")
            one = host.staged(asked.approval_id, call=f"c-{number}", distinct=True)
            # When both click at the same moment
            clicked = [
                clicks.submit(_click, host, both, connection, asked.approval_id, *answer)
                for connection, answer in zip((first, second), answers, strict=True)
            ]
            decisions = [click.result(20) for click in clicked]
            # Then one of them won, and both say who did, when and what
            assert sorted(one.won for one in decisions) == [False, True]
            winner = decisions[0] if decisions[0].won else decisions[1]
            assert {(one.state, one.decided_by, one.decided_at) for one in decisions} == {
                (winner.state, winner.decided_by, winner.decided_at)
            }
            assert (winner.decided_by, winner.approved) in answers
            found = host.get(asked.approval_id)
            assert (found.state, found.decided_by, found.decided_at) == (winner.state, winner.decided_by, winner.decided_at)
            # And there is one decision on record, one wake-up, and one request or none
            assert [message["kwargs"]["state"] for message in host.told(asked.approval_id)] == ["pending", winner.state]
            assert await host.relay() == [one]
            assert bench.provider.called(one) == winner.approved
            assert bench.state(one) is (State.CONFIRMED if winner.approved else State.REJECTED)
            outcomes.add(winner.state)
    assert outcomes <= {ApprovalState.GRANTED, ApprovalState.DENIED}


def _click(host: Asking, both: Barrier, connection: Connection, approval: str, by: str, approve: bool) -> Decision:
    with connection.begin():
        both.wait(20)
        return host.approvals.decide(connection, approval, approve, by=by)


@pytest.mark.case("R092")
def test_who_clicks_while_another_answer_is_being_written_waits_and_sees_it(bench: Bench, host: Asking) -> None:
    asked = host.ask()
    deny = Racer(bench.sync, lambda connection: host.approvals.decide(connection, asked.approval_id, False, by="ann")).start()
    assert deny.result().won
    approve = Racer(bench.sync, lambda connection: host.approvals.decide(connection, asked.approval_id, True, by="bob"))
    approve.start_blocked()
    deny.commit()
    late = approve.result()
    approve.commit()
    assert (late.won, late.state, late.decided_by) == (False, ApprovalState.DENIED, "ann")


def test_an_answer_that_is_rolled_back_was_none(bench: Bench, host: Asking) -> None:
    asked = host.ask()
    deny = Racer(bench.sync, lambda connection: host.approvals.decide(connection, asked.approval_id, False, by="ann")).start()
    deny.result()
    approve = Racer(bench.sync, lambda connection: host.approvals.decide(connection, asked.approval_id, True, by="bob"))
    approve.start_blocked()
    deny.rollback()
    assert approve.result().won
    approve.commit()
    assert host.get(asked.approval_id).decided_by == "bob"


def test_two_drafts_at_once_leave_one_that_can_be_decided(bench: Bench, host: Asking) -> None:
    # Given two requests for one intent that do not see each other
    def asking(words: str) -> Callable[[Connection], str]:
        def ask(connection: Connection) -> str:
            return host.approvals.request(connection, Note(ref="case-1", text=words), workflow="w", call="c").approval_id

        return ask

    first = Racer(bench.sync, asking("first")).start()
    draft = first.result()
    second = Racer(bench.sync, asking("second")).start_blocked()
    first.commit()
    newer = second.result()
    second.commit()

    assert [host.get(one).state for one in (draft, newer)] == [ApprovalState.SUPERSEDED, ApprovalState.PENDING]


@pytest.mark.invariant(8)
def test_a_grant_and_a_newer_draft_at_once_leave_nothing_to_send(bench: Bench, host: Asking) -> None:
    # Given a draft that is being superseded while somebody approves it
    asked = host.ask("first")
    superseding = Racer(
        bench.sync,
        lambda connection: host.approvals.request(connection, Note(ref="case-1", text="second"), workflow="w", call="c-1"),
    ).start()
    assert superseding.result().superseded == asked.approval_id
    approving = Racer(bench.sync, lambda connection: _refused(host, connection, asked.approval_id)).start_blocked()
    superseding.commit()
    assert approving.result() == "superseded"
    approving.rollback()
    assert host.get(asked.approval_id).state is ApprovalState.SUPERSEDED


def _refused(host: Asking, connection: Connection, approval: str) -> str | None:
    from acuse import ApprovalError

    try:
        host.approvals.decide(connection, approval, True, by="ann")
    except ApprovalError as error:
        return error.state
    return None


@pytest.mark.invariant(8)
@pytest.mark.parametrize(
    ("limits", "sent"),
    [({"max_uses": 3}, 3), ({"max_sum": ("amount", Decimal("35.00"))}, 3), ({"max_uses": 2, "max_sum": ("amount", 35)}, 2)],
    ids=["count", "sum", "both"],
)
async def test_dispatches_at_once_never_go_beyond_the_limits_of_a_pattern(
    bench: Bench, host: Asking, limits: dict[str, object], sent: int
) -> None:
    # Given a pattern, twelve operations of 10.50 each that fit it, and four workers
    pattern = _pattern(host, **limits)
    bench.promise(KEYED)
    ones = [_note(host, pattern, number) for number in range(12)]
    bench.provider.will(*[vanish] * sent)  # every first attempt is in doubt, so that each must be repeated
    workers = [bench.another() for _ in range(4)]

    # When the workers take them at the same moment
    await asyncio.gather(*(bench.carry(one, engine=workers[at % 4]) for at, one in enumerate(ones)))

    # Then so many were sent as the limits allow, and the others know why not
    used = [one for one in ones if bench.state(one) is State.UNKNOWN]
    assert len(used) == sent
    gone = [bench.row(one) for one in ones if one not in used]
    assert {(row.status, row.outcome_code, row.attempts) for row in gone} == {("rejected", "approval_gone", 0)}
    assert {row.reason for row in gone} <= {"approval_used_up", "approval_sum_exceeded"}
    found = host.get(pattern)
    summed = Decimal("10.50") * sent if "max_sum" in limits else Decimal(0)
    assert (found.used, found.summed) == (sent, summed)
    # And when they are repeated, nothing is charged again
    for one in used:
        bench.pass_time(one, 5)
    await asyncio.gather(*(bench.again(one) for one in used))
    assert [bench.state(one) for one in used] == [State.CONFIRMED] * sent
    assert [bench.provider.called(one) for one in used] == [2] * sent
    found = host.get(pattern)
    assert (found.used, found.summed) == (sent, summed)


def _pattern(host: Asking, **limits: object) -> str:
    with host.bench.sync.begin() as connection:
        return host.approvals.grant_pattern(
            connection,
            Note,
            by="ann",
            target_prefix="case-",
            expires_in=timedelta(hours=1),
            **limits,  # type: ignore[arg-type]
        )


def _note(host: Asking, pattern: str, number: int) -> UUID:
    note = Note(ref=f"case-{number}", amount=Decimal("10.50"))
    with host.bench.sync.begin() as connection:
        staged = host.outbox.stage(
            connection, note, workflow="w", call=f"c-{number}", approval=pattern, account=host.bench.tenant
        )
    return uuid_of(staged.operation_id, prefix="op", field="id")
