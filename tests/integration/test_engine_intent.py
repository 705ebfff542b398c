"""The pinned intent: the same bytes under the same key, or nothing; and when a new key is right."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from bench import Bench
from scripted_provider import KEYED, accept, lose_reply, refuse, vanish

from acuse.protocol import Outcome, State
from acuse_adapters.port import Operation


async def test_a_payload_that_was_changed_after_staging_is_held_with_an_incident(bench: Bench) -> None:
    one = bench.stage()
    bench.do(
        """update acuse.payload set body = convert_to(replace(convert_from(body, 'UTF8'), 'hello', 'HELLO'), 'UTF8')
           where id = :id""",
        one,
    )

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.held, bench.provider.calls) == ("prepared", "its stored payload no longer matches its digest", [])
    assert [incident.kind for incident in bench.rows("incident", one)] == ["payload_changed"]


async def test_a_payload_that_retention_dropped_is_held(bench: Bench) -> None:
    one = bench.stage()
    bench.do("delete from acuse.payload where id = :id", one)

    await bench.carry(one)

    assert bench.row(one).held == "its payload is gone: retention dropped it"
    assert bench.provider.calls == []


@pytest.mark.case("R029")
async def test_every_attempt_sends_the_same_bytes_under_the_same_pin_whatever_the_adapter_did_to_its_copy(bench: Bench) -> None:
    # Given a payload with what JSON does not have, and an adapter that changes its copy and fails
    bench.promise(KEYED)
    document = UUID("0193a1b2-0000-7000-8000-000000000001")
    fields = {"amount": Decimal("10.00"), "at": datetime.fromisoformat("2026-11-30T06:00:00+00:00"), "document": document}
    one = bench.stage(fields=fields)

    async def spoil(_provider: Any, operation: Operation[Any]) -> Outcome:
        object.__setattr__(operation.payload, "text", "something else")
        dict(operation.pin)["preparation"] = 99
        raise RuntimeError("after the work was done")

    bench.provider.will(spoil, vanish, accept)

    for _ in range(3):
        await bench.again(one)
        bench.pass_time(one, 10)

    # Then all three requests are the same, byte for byte
    assert bench.state(one) is State.CONFIRMED
    assert len(bench.provider.calls) == 3
    assert len({(call.key, call.body, str(call.pin)) for call in bench.provider.calls}) == 1
    assert b'"amount":"10.00"' in bench.provider.calls[0].body
    assert len(bench.provider.prepared) == 1


async def test_a_repeat_without_a_pin_on_record_is_prepared_first(bench: Bench) -> None:
    # Given an operation that a person suspects after a restore, without any attempt on record, and whose risk is accepted
    one = bench.stage()
    bench.act(one, "suspect")
    bench.act(one, "accept_risk")

    await bench.again(one)

    assert (bench.state(one), bench.provider.calls[0].pin) == (State.CONFIRMED, {"preparation": 1})


@pytest.mark.case("R061")
async def test_after_a_refusal_a_successor_has_a_new_key_and_while_in_doubt_there_is_only_the_same(bench: Bench) -> None:
    # Given an operation that was refused
    bench.promise(KEYED)
    refused = bench.stage()
    bench.provider.will(refuse)
    await bench.carry(refused)

    # When it is taken up again, then that is a new operation with a key of its own
    successor = bench.stage(succeeds=str(refused))
    await bench.carry(successor)
    assert bench.state(successor) is State.CONFIRMED
    assert [call.key for call in bench.provider.calls] == [f"op_{refused.hex}", f"op_{successor.hex}"]
    assert bench.row(successor).generation == 1

    # Given one in doubt, then it cannot be taken up again, and its own repeat has the same key
    doubtful = bench.stage(target="case-2")
    bench.provider.will(lose_reply)
    await bench.carry(doubtful)
    with pytest.raises(AssertionError, match="not_rejected"):
        bench.stage(target="case-2", succeeds=str(doubtful))
    bench.pass_time(doubtful, 10)
    await bench.again(doubtful)
    assert bench.state(doubtful) is State.CONFIRMED
    assert [call.key for call in bench.provider.calls[2:]] == [f"op_{doubtful.hex}"] * 2
    assert bench.provider.made(doubtful) == 1
    assert bench.count("duplicates_prevented", kind="replay") == 1
