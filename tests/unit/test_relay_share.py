"""How what a queue takes is divided."""

from collections import Counter, defaultdict
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from acuse.store.relay import OutboxRow
from acuse_relay.share import portions, take_turns

NOW = datetime(2026, 1, 1, tzinfo=UTC)
tenants = st.lists(st.text("abc", max_size=2), max_size=12)


def rows_of(names: list[str]) -> list[OutboxRow]:
    return [OutboxRow(n, "acuse.crm", None, {}, NOW, name) for n, name in enumerate(names)]


@given(st.integers(0, 30), st.sets(st.text("abc", max_size=2), max_size=12))
def test_every_tenant_gets_the_same_and_no_more_than_there_is(room: int, waiting: set[str]) -> None:
    given_out = portions(room, sorted(waiting))
    assert sum(given_out.values()) <= room
    assert len(set(given_out.values())) <= 1
    assert list(given_out) == sorted(waiting)[: len(given_out)]
    assert len(given_out) == min(room, len(waiting))
    # What is left over is less than one row for each
    assert not waiting or room - sum(given_out.values()) < max(1, len(waiting))


@given(tenants)
def test_turns_are_taken_and_what_is_of_one_tenant_keeps_its_order(names: list[str]) -> None:
    rows = rows_of(names)
    turned = take_turns(rows)
    assert sorted(row.id for row in turned) == [row.id for row in rows]
    by_tenant, seen = defaultdict(list), Counter[str]()
    for row in turned:
        by_tenant[row.tenant].append(row.id)
        # The n-th of a tenant comes behind at most n of each other
        seen[row.tenant] += 1
        assert all(count <= seen[row.tenant] for count in seen.values())
    assert all(ids == sorted(ids) for ids in by_tenant.values())
