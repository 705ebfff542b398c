"""What a send ends in, and what the engine makes of it: every arrow that a worker takes, on real PostgreSQL."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from bench import Bench
from scripted_provider import (
    KEYED,
    accept,
    contract,
    fail,
    hang_up,
    lock_out,
    lose_reply,
    refuse,
    refuse_for_good,
    vanish,
)

from acuse.protocol import NotSent, Outcome, Refused, State
from acuse_adapters.port import Ended, Operation


async def test_a_receipt_confirms_and_is_kept(bench: Bench) -> None:
    one = bench.stage()

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.result_id, row.result_version) == ("confirmed", f"N-{one.hex[-6:]}", "1")
    [attempt] = bench.rows("attempt", one)
    assert (attempt.outcome, attempt.doubtful, attempt.provider_key) == ("accepted", False, f"op_{one.hex}")
    assert [entry.kind for entry in bench.rows("ledger", one)] == ["staged", "dispatched", "settled"]
    assert bench.count("operations_settled", provider="scripted", state="confirmed", by="receipt") == 1


async def test_a_refusal_rejects_with_the_providers_code(bench: Bench) -> None:
    one = bench.stage()
    bench.provider.will(refuse)

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.outcome_code, row.reason, row.doubts) == ("rejected", "closed_case", "the case is closed", 0)
    assert bench.count("operations_settled", provider="scripted", state="rejected", by="refusal") == 1


async def test_what_was_not_sent_is_prepared_again_and_leaves_no_trace_of_a_first_send(bench: Bench) -> None:
    one = bench.stage()
    bench.provider.will(hang_up)

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.doubts, row.first_sent_at, row.retry_until) == ("prepared", 0, None, None)
    assert row.due_at is not None
    await bench.again(one)
    assert bench.state(one) is State.CONFIRMED
    assert bench.provider.made(one) == 1


@pytest.mark.parametrize("behaviour", [lose_reply, vanish, fail], ids=lambda b: b.__name__)
async def test_an_ambiguous_answer_is_unknown_and_never_rejected(bench: Bench, behaviour: Any) -> None:
    one = bench.stage()
    bench.provider.will(behaviour)

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.doubts) == ("unknown", 1)
    assert row.due_at is not None


@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(3), BaseException("odd"), KeyError("k")], ids=repr)
async def test_whatever_an_adapter_raises_out_of_send_is_ambiguous(bench: Bench, error: BaseException) -> None:
    one = bench.stage()

    async def explode(*_: Any) -> Outcome:
        raise error

    bench.provider.will(explode)

    await bench.carry(one)

    assert bench.state(one) is State.UNKNOWN
    [attempt] = bench.rows("attempt", one)
    assert attempt.reason == f"the adapter failed during the call: {type(error).__name__}"


async def test_an_answer_that_is_no_outcome_is_ambiguous(bench: Bench) -> None:
    one = bench.stage()

    async def nonsense(*_: Any) -> Any:
        return {"status": "ok"}

    bench.provider.will(nonsense)

    await bench.carry(one)

    assert bench.state(one) is State.UNKNOWN


async def test_a_provider_that_never_answers_is_left_at_the_deadline(bench: Bench) -> None:
    bench.promise(contract(deadline=2))
    one = bench.stage()

    async def silence(*_: Any) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    bench.provider.will(silence)

    await bench.carry(one)

    assert bench.state(one) is State.UNKNOWN
    [attempt] = bench.rows("attempt", one)
    assert attempt.reason.startswith("no answer within 2.0 s")


@pytest.mark.invariant(5)
@pytest.mark.parametrize("second", [refuse, hang_up], ids=["refused", "not sent"])
async def test_an_outcome_speaks_for_its_own_attempt_only(bench: Bench, second: Any) -> None:
    # Given an operation whose first attempt is in doubt
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(lose_reply, second)
    await bench.carry(one)
    bench.pass_time(one, 5)

    # When the second attempt is refused, or never leaves
    await bench.again(one)

    # Then it is still unknown: the first may have taken effect (and has)
    row = bench.row(one)
    assert (row.status, row.doubts, bench.provider.made(one)) == ("unknown", 1, 1)
    assert [attempt.doubtful for attempt in bench.rows("attempt", one)] == [True, False]


@pytest.mark.invariant(5)
async def test_a_refusal_that_covers_the_key_rejects_despite_an_older_doubt(bench: Bench) -> None:
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(vanish, refuse_for_good)
    await bench.carry(one)
    bench.pass_time(one, 5)

    await bench.again(one)

    row = bench.row(one)
    assert (row.status, row.doubts, row.outcome_code) == ("rejected", 0, "closed_case")


async def test_an_account_fault_rests_the_account_and_settles_nothing(bench: Bench) -> None:
    # Given two operations of one account, the first of which is told 401
    one, other = bench.stage(), bench.stage(target="case-2")
    bench.provider.will(lock_out)

    await bench.carry(one)

    # Then the account is paused, the operation is as it was, and nothing else of it leaves
    assert bench.row(one).status == "prepared"
    paused = "select paused_at is not null and paused_until > clock_timestamp() from acuse.account where account = :account"
    assert bench.ask(paused, account=bench.tenant)
    await bench.carry(other)
    row = bench.row(other)
    assert (row.status, bench.provider.called(other), row.handovers) == ("prepared", 0, 0)
    assert row.due_at is not None
    assert bench.count("dispatch_gated", gate="account_paused") == 1

    # And it goes on by itself when the pause has ended
    bench.do("update acuse.account set paused_until = clock_timestamp() where account = :account", account=bench.tenant)
    await bench.again(one)
    await bench.again(other)
    assert (bench.state(one), bench.state(other)) == (State.CONFIRMED, State.CONFIRMED)


async def test_an_account_fault_seen_by_prepare_rests_the_account_too(bench: Bench) -> None:
    one = bench.stage()

    async def no_token(_: Operation[Any]) -> None:
        raise Ended(NotSent("401 from the token endpoint", account_fault=True))

    bench.provider.on_prepare = no_token

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.attempts, row.handovers) == ("prepared", 0, 0)
    assert bench.ask("select pause_reason from acuse.account where account = :a", a=bench.tenant) == "401 from the token endpoint"


async def test_an_automatic_pause_never_shortens_a_persons(bench: Bench) -> None:
    one = bench.stage()
    bench.do(
        "select acuse.pause_account('scripted', :account, clock_timestamp() + interval '1 hour', 'bob', 'audit')",
        account=bench.tenant,
    )
    [claimed] = await bench.book().claim([one])

    await bench.book().pause(claimed, timedelta(seconds=5), "401")

    longer = "select paused_until > clock_timestamp() + interval '59 min' from acuse.account where account = :a"
    assert bench.ask(longer, a=bench.tenant)


@pytest.mark.invariant(11)
async def test_no_transaction_is_open_while_a_provider_is_called(bench: Bench) -> None:
    # Given three operations that meet in their preparation, and again in their calls
    seen = []
    meeting = asyncio.Barrier(3)

    async def look(_: Operation[Any]) -> None:
        await meeting.wait()
        seen.append(bench.open_transactions())
        await meeting.wait()

    bench.provider.on_call = bench.provider.on_prepare = look

    await bench.carry(*[bench.stage(target=f"case-{n}") for n in range(3)])

    assert seen == [0] * 6


@pytest.mark.invariant(4)
async def test_each_attempt_is_one_request(bench: Bench) -> None:
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(hang_up, vanish, vanish, accept)

    for _ in range(4):
        await bench.again(one)
        bench.pass_time(one, 10)

    assert bench.state(one) is State.CONFIRMED
    assert bench.provider.called(one) == len(bench.rows("attempt", one)) == 4
    assert [call.attempt for call in bench.provider.calls] == [1, 2, 3, 4]


async def test_a_batch_is_carried_out_concurrently_and_each_operation_alone(bench: Bench) -> None:
    # Given five operations in one message, one of which fails and one of which is refused
    operations = [bench.stage(target=f"case-{n}") for n in range(5)]
    together = asyncio.Barrier(5)

    async def meet(_: Operation[Any]) -> None:
        await together.wait()  # all five are in the air at once, or nobody gets on

    bench.provider.on_call = meet
    bench.provider.will(fail, refuse)

    await bench.carry(*operations)

    states = sorted(bench.state(one).value for one in operations)
    assert states == ["confirmed", "confirmed", "confirmed", "rejected", "unknown"]


async def test_an_outcome_with_texts_that_no_column_takes_is_saved_all_the_same(bench: Bench) -> None:
    one = bench.stage()

    async def strange(*_: Any) -> Outcome:
        return Refused("c\0de" * 40, "a \ud800 surrogate and \0 and much more" * 200)

    bench.provider.will(strange)

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, len(row.outcome_code)) == ("rejected", 60)


async def test_messages_of_another_ledger_and_forged_ones_are_counted_and_dropped(bench: Bench) -> None:
    one = bench.stage()
    good = f"op_{one.hex}"

    for ledger, operations in [
        ("0" * 32, [good]),
        (bench.ledger, ["op_nonsense"]),
        (bench.ledger, [good, 7]),
        (bench.ledger, []),
        (bench.ledger, None),
        (bench.ledger, "op"),
        (bench.ledger, [None]),
    ]:
        await bench.engine.perform(ledger, operations)  # type: ignore[arg-type]

    assert bench.count("messages_foreign") == 7
    assert bench.provider.calls == []
    assert bench.row(one).fence == 0
