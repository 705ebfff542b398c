"""The business of the demonstration: a host with tables of its own that closes onboarding cases and says so.

This is what a team writes. It imports no broker: staging needs the base installation only.
"""

from sqlalchemy import Engine, text

from acuse import Event, Outbox, Plan, Routes
from acuse_adapters.crm.action import CloseCase
from acuse_adapters.email.action import SendEmail
from acuse_adapters.ticketing.action import CreateTicket

__all__ = ["STUBBORN", "CaseClosed", "close_case", "create_tables", "owner_address", "subject", "tenants"]

STUBBORN = 2
"""The case whose ticket the helpdesk never answers: it ends as an honest unknown, whatever the seed."""

_TABLES = """
create schema if not exists onboarding;
create table if not exists onboarding.case_file (
  id            text primary key,
  status        text not null default 'open',
  closed_at     timestamptz,
  ticket_number text,
  ticket_said   text
);
"""


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    """A case was closed."""

    case: str
    owner: str


routes = Routes()


@routes.on(CaseClosed)
def close_and_tell(event: CaseClosed, plan: Plan) -> None:
    """The CRM is closed, then its owner is told; the ticket for the follow-up waits for nobody."""
    closed = plan.effect(CloseCase(case=event.case, resolution="onboarded"))
    plan.effect(
        SendEmail(
            reference=event.case,
            to=owner_address(event.case),
            subject=f"Case {event.case} is closed",
            body=f"Dear {event.owner},\n\nthe onboarding case {event.case} is closed.\n",
        ),
        after=closed,
    )
    plan.effect(
        CreateTicket(
            reference=event.case, subject=subject(event.case), description="Ask how they are doing", requester=event.owner
        ),
        on_settled="onboarding/remember_ticket",
    )


outbox = Outbox(routes=routes)


def create_tables(engine: Engine) -> None:
    """Create the host's own tables."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_TABLES)


def tenants(count: int) -> list[str]:
    """Return the tenants that share the cases; case number n is that of tenant n modulo their count."""
    return ["onboarding", *(f"onboarding-{number}" for number in range(2, count + 1))]


def close_case(engine: Engine, number: int, tenant: str) -> None:
    """Close one case: the business change, the event and its three operations in one local transaction.

    Doing it again changes nothing, so that a host may repeat it when it has not heard of the commit.
    """
    case = f"case-{number}"
    with engine.begin() as connection:
        connection.execute(
            text(
                """insert into onboarding.case_file (id, status, closed_at) values (:id, 'closed', now())
                   on conflict (id) do nothing"""
            ),
            {"id": case},
        )
        event = CaseClosed(case=case, owner=f"user-{number % 17}")
        outbox.publish(connection, event, workflow=f"onboarding-{number}", tenant=tenant)


def owner_address(case: str) -> str:
    """Return the address of a case's owner: one per case, so that the mailbox itself shows a double."""
    return f"owner-of-{case}@example.test"


def subject(case: str) -> str:
    """Return the subject of a case's ticket."""
    return f"Follow up on {case} in a week"
