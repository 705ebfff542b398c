"""A ticket that is created, commented on and closed, in that order, whatever becomes of its creation."""

from dataclasses import dataclass
from uuid import UUID

import pytest
from bench import Bench
from scripted_provider import UNHURRIED, hang_up, lose_reply, refuse

from acuse.identifier import operation_id
from acuse.protocol import State
from acuse.store.behind import waiting_behind

OTHERS = 60


@dataclass(frozen=True)
class Chain:
    """Operations of one ordering key; `needs` of them stand on the creation by name, too."""

    create: UUID
    comment: UUID
    close: UUID

    @classmethod
    def staged(cls, bench: Bench, *, by_name: bool) -> "Chain":
        key = "case-1"
        create = bench.stage(target="create", ordering_key=key)
        after = [{"id": str(create)}] if by_name else []
        comment = bench.stage(target="comment", ordering_key=key, after=after)
        return cls(create, comment, bench.stage(target="close", ordering_key=key))

    @property
    def all(self) -> tuple[UUID, ...]:
        return self.create, self.comment, self.close


def behind(bench: Bench, operation: UUID) -> list[str]:
    """What an operator sees to be waiting behind an operation."""
    with bench.sync.connect() as connection:
        return [one.operation_id for one in waiting_behind(connection, operation_id(operation))]


@pytest.mark.case("R044")
@pytest.mark.invariant(9)
async def test_a_chain_waits_for_its_head_in_doubt_in_sight_of_the_operator_and_other_keys_flow(bench: Bench) -> None:
    # Given a creation that fails once and then gets no answer, its successors, and many others behind them
    bench.promise(UNHURRIED)
    chain = Chain.staged(bench, by_name=False)
    others = [bench.stage(target=f"other-{n}", ordering_key=f"other-{n}") for n in range(OTHERS)]
    bench.provider.will(hang_up)
    await bench.carry(*chain.all)
    assert (bench.state(chain.create), bench.provider.called(chain.comment)) == (State.PREPARED, 0)
    bench.provider.will(lose_reply)
    await bench.again(chain.create)
    assert bench.state(chain.create) is State.UNKNOWN

    # When all messages come, from two relays and out of order
    await bench.carry(*others[30:], chain.close, chain.comment)
    await bench.carry(*others[:30], engine=bench.another())

    # Then the others are done, and the two wait; the operator sees for what
    assert {bench.state(one) for one in others} == {State.CONFIRMED}
    assert [bench.row(one).waiting for one in (chain.comment, chain.close)] == ["ordering", "ordering"]
    assert behind(bench, chain.create) == [operation_id(one) for one in (chain.comment, chain.close)]

    # And when evidence confirms the creation, each wakes the next
    bench.drop_messages()
    await bench.again(chain.create)
    assert [bench.messages(one) for one in chain.all] == [0, 1, 0]
    await bench.carry(chain.comment)
    assert [bench.messages(one) for one in chain.all] == [0, 1, 1]
    await bench.carry(chain.close)
    assert {bench.state(one) for one in chain.all} == {State.CONFIRMED}
    order = [call.key for call in bench.provider.calls if call.key in {operation_id(one) for one in chain.all}]
    assert order == [operation_id(one) for one in (chain.create, chain.create, chain.comment, chain.close)]
    assert {bench.provider.made(one) for one in chain.all} == {1}


@pytest.mark.case("R044")
@pytest.mark.invariant(9)
@pytest.mark.parametrize("by_name", [True, False], ids=["depends on it", "comes after it"])
async def test_a_rejected_head_rejects_those_that_depend_on_it_by_name_and_lets_the_others_go(
    bench: Bench, by_name: bool
) -> None:
    chain = Chain.staged(bench, by_name=by_name)
    bench.provider.will(refuse)
    await bench.carry(*chain.all)
    assert bench.state(chain.create) is State.REJECTED

    await bench.carry(chain.comment, chain.close)
    await bench.carry(chain.close)

    comment = bench.row(chain.comment)
    if by_name:
        assert (comment.status, comment.outcome_code) == ("rejected", "dependency_rejected")
    else:
        assert comment.status == "confirmed"
    assert bench.state(chain.close) is State.CONFIRMED
    assert [bench.provider.called(one) for one in chain.all] == [1, 0 if by_name else 1, 1]
