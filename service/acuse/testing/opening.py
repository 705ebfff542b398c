"""Choosing the outbox of a test by what the test has."""

import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, overload

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from acuse.intent import ActionCatalog, Routes
from acuse.testing.memory_outbox import MemoryOutbox
from acuse.testing.promises import Contracts
from acuse.testing.transaction_outbox import TransactionOutbox

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

    from acuse.testing.async_transaction_outbox import AsyncTransactionOutbox

__all__ = ["open_outbox"]


@overload
def open_outbox(
    session: None = None,
    *,
    routes: Routes | None = None,
    catalog: ActionCatalog | None = None,
    tenant: str = "default",
    contracts: Contracts | None = None,
) -> MemoryOutbox: ...


@overload
def open_outbox(
    session: Session | scoped_session[Any] | Connection,
    *,
    routes: Routes | None = None,
    catalog: ActionCatalog | None = None,
    tenant: str = "default",
    contracts: Contracts | None = None,
) -> TransactionOutbox: ...


@overload
def open_outbox(
    session: "AsyncSession | AsyncConnection",
    *,
    routes: Routes | None = None,
    catalog: ActionCatalog | None = None,
    tenant: str = "default",
    contracts: Contracts | None = None,
) -> "Awaitable[AsyncTransactionOutbox]": ...


def open_outbox(
    session: object = None,
    *,
    routes: Routes | None = None,
    catalog: ActionCatalog | None = None,
    tenant: str = "default",
    contracts: Contracts | None = None,
) -> object:
    """Without a session an outbox in memory; with one, the outbox of its transaction (awaited for an asynchronous one).

    Raises `TypeError` for a session that is none of SQLAlchemy's.
    """
    if session is None:
        return MemoryOutbox(routes, catalog, tenant, contracts=contracts)
    if isinstance(session, Session | scoped_session | Connection):
        return TransactionOutbox(session, routes, catalog, tenant, contracts=contracts)
    asyncio = sys.modules.get("sqlalchemy.ext.asyncio")  # needs greenlet, which a host may do without
    if asyncio is not None and isinstance(session, asyncio.AsyncSession | asyncio.AsyncConnection):
        from acuse.testing.async_transaction_outbox import AsyncTransactionOutbox  # noqa: PLC0415 - as above

        return AsyncTransactionOutbox.open(session, routes, catalog, tenant, contracts=contracts)
    raise TypeError(
        "acuse_outbox takes the session of your test's transaction: a SQLAlchemy Session, scoped_session or Connection, or an "
        f"AsyncSession or AsyncConnection; got {type(session).__module__}.{type(session).__qualname__}; without one it is in "
        "memory, and takes any object for a connection"
    )
