"""The key at the provider: the same for every attempt of an operation, and of no use once the provider may have forgotten it."""

from datetime import timedelta

import pytest
from bench import Bench
from scripted_provider import KEYED, contract, hang_up, key, vanish
from sqlalchemy.exc import DBAPIError

from acuse.protocol import State

HALF_AN_HOUR = contract(key=key(1800.0), max_in_flight=timedelta(seconds=1))

ACCEPT = "select acuse.operate(:id, :version, 'accept_risk', cast(:by as text), 'because', null)"


@pytest.mark.case("R059")
@pytest.mark.invariant(7)
async def test_the_key_is_the_operation_s_own_whoever_sends_it_and_when(bench: Bench) -> None:
    # Given an operation that is sent again and again: by the same worker, after a restart, after a deploy, with a new token
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(vanish, vanish, vanish, vanish)
    await bench.carry(one)
    for change in ("nothing", "restart", "deploy", "credentials"):
        bench.pass_time(one, 120)
        if change == "restart":
            bench.engine = bench.another()
        if change == "deploy":
            bench.promise(KEYED.model_copy(update={"version": "scripted-2"}))
        if change == "credentials":
            bench.do("select acuse.limit_account('scripted', :account, 9, null, 'eve', 'new token')", account=bench.tenant)
        await bench.again(one)

    # Then each request carries the same key and the same bytes
    calls = bench.provider.calls
    assert len(calls) == 5
    assert {call.key for call in calls} == {f"op_{one.hex}"}
    assert len({call.body for call in calls}) == 1
    assert [attempt.provider_key for attempt in bench.rows("attempt", one)] == [f"op_{one.hex}"] * 5
    assert {attempt.contract_version for attempt in bench.rows("attempt", one)} == {"scripted-1", "scripted-2"}
    assert (bench.state(one), bench.provider.made(one)) == (State.CONFIRMED, 1)


@pytest.mark.case("R064")
@pytest.mark.invariant(7)
@pytest.mark.parametrize("later", [timedelta(minutes=31), timedelta(days=3)], ids=["half an hour later", "days later"])
async def test_a_doubt_that_outlived_its_key_is_never_sent_again_but_on_a_person_s_word(bench: Bench, later: timedelta) -> None:
    # Given a doubt about a request whose key the provider keeps for half an hour, and a provider that is away
    bench.promise(HALF_AN_HOUR)
    one = bench.stage()
    bench.provider.will(vanish, hang_up)
    await bench.carry(one)
    bench.pass_time(one, 60)
    await bench.again(one)
    assert (bench.state(one), bench.provider.called(one)) == (State.UNKNOWN, 2)

    # When the window has closed, and messages come
    bench.pass_time(one, later.total_seconds() - 60)
    for _ in range(3):
        await bench.again(one)

    # Then it waits for a person, and says until when it could have been sent again
    row = bench.row(one)
    assert (row.status, bench.provider.called(one)) == ("unknown", 2)
    assert row.retry_until < bench.ask("select clock_timestamp()")
    assert row.held is not None
    assert "key" in row.held

    # And nobody sends it again without a name and a reason on record
    for nameless in ("", None):
        with pytest.raises(DBAPIError):
            bench.do(ACCEPT, one, version=row.version, by=nameless)
    await bench.again(one)
    assert bench.provider.called(one) == 2
    bench.act(one, "accept_risk")
    await bench.again(one)
    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 3)
    [accepted] = [entry for entry in bench.rows("ledger", one) if entry.actor == "eve"]
    assert accepted.reason == "because"
