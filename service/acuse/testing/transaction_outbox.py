"""An outbox inside the transaction of a test, on the host's own PostgreSQL: everything is real, and nothing is committed."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from acuse.intent import ActionCatalog, Routes
from acuse.outbox import Outbox
from acuse.testing.behaviour import Script, accepted
from acuse.testing.observed import Actors, Observed, refuse_awaitable
from acuse.testing.promises import Contracts
from acuse.testing.provider import Outcomes
from acuse.testing.transaction_book import TransactionBook

__all__ = ["TransactionOutbox"]


class TransactionOutbox(Outbox, Observed):
    """An `Outbox`, and what a test sees of all that is staged in its transaction, by whichever outbox and face.

    Effects are carried out by the statements of a worker on the same connection. Time stands still here, too: what is on record
    is made older when time is to pass, and younger by what has passed by itself.
    """

    def __init__(
        self,
        session: Session | scoped_session[Any] | Connection,
        routes: Routes | None = None,
        catalog: ActionCatalog | None = None,
        tenant: str = "default",
        *,
        contracts: Contracts | None = None,
    ) -> None:
        """session: it is in the transaction that the test rolls back, and may use all tables of the schema."""
        Outbox.__init__(self, routes, catalog, tenant)
        connection = session if isinstance(session, Connection) else session.connection()
        Observed.__init__(self, TransactionBook(connection), contracts)

    def run_effects(
        self,
        outcomes: Outcomes | None = None,
        *,
        during: timedelta = timedelta(0),
        otherwise: Script = accepted,
        actors: Actors = (),
    ) -> None:
        """See `MemoryOutbox.run_effects`."""
        __tracebackhide__ = True
        for call in self._ran(outcomes, during, otherwise, actors):
            refuse_awaitable(call())
