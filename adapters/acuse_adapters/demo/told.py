"""What the ledger tells of every operation, for the judgement."""

from collections.abc import Iterable, Iterator

from sqlalchemy import Engine

from acuse import Ledger
from acuse.ledger import OperationRecord
from acuse_adapters.demo.judge import Told

__all__ = ["told_by"]


def told_by(engine: Engine, tenants: Iterable[str]) -> list[Told]:
    """Read what the ledger says of all operations of these tenants."""
    return [
        Told(
            operation=one.operation_id,
            action=one.action,
            target=one.target,
            provider=one.provider,
            state=one.state.value,
            attempts=one.attempts,
            waiting=one.waiting is not None or one.held is not None,
            why="" if one.state.final else one.why,
            next="" if one.state.final else one.what_next,
        )
        for tenant in tenants
        for one in _every(Ledger(engine, tenant=tenant))
    ]


def _every(ledger: Ledger) -> Iterator[OperationRecord]:
    page = ledger.find(limit=500)
    yield from page.operations
    while page.before is not None:
        page = ledger.find(limit=500, before=page.before)
        yield from page.operations
