"""How what a queue takes is divided among the tenants that wait for it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from acuse.store.relay import OutboxRow

__all__ = ["portions", "take_turns"]


def portions(room: int, tenants: Sequence[str]) -> dict[str, int]:
    """Divide room for so many rows into equal parts. If it is less than one row for each, the first get one each."""
    return dict.fromkeys(tenants[:room], max(1, room // len(tenants))) if tenants else {}


def take_turns(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """Order rows so that the first of each tenant come first, then the second of each; of one tenant as they were.

    A tenant's one row then stands behind at most one row of each other, and what belongs together keeps its order.
    """
    by_tenant: defaultdict[str, list[OutboxRow]] = defaultdict(list)
    for row in rows:
        by_tenant[row.tenant].append(row)
    if len(by_tenant) == 1:
        return next(iter(by_tenant.values()))
    return [row for row in chain.from_iterable(zip_longest(*by_tenant.values())) if row is not None]
