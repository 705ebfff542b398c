"""What a host of the tests has: actions, events, routes, and a table of its own."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from acuse.intent import Action, Event, Plan, Routes


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case", "reopening"), overwrites=True):
    case: str
    resolution: str = "onboarded"
    reopening: int = 0


class SendEmail(Action, name="email.send.v1", target="case"):
    case: str
    to: str = "owner@example.org"
    subject: str = "Your case"


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    case: str
    owner: str = "user-7"


class CaseSeen(Event, name="onboarding.case_seen.v1"):
    case: str


routes = Routes()


@routes.on(CaseClosed)
def close_and_tell(event: CaseClosed, plan: Plan) -> None:
    closed = plan.effect(CloseCase(case=event.case))
    plan.effect(SendEmail(case=event.case, to=f"{event.owner}@example.org"), after=closed)


@routes.on(CaseSeen)
def tell(event: CaseSeen, plan: Plan) -> None:
    plan.effect(SendEmail(case=event.case))


@dataclass(frozen=True)
class Counts:
    """Rows that belong to one tenant."""

    events: int
    operations: int
    payloads: int
    entries: int
    messages: int

    @classmethod
    def none(cls) -> "Counts":
        return cls(0, 0, 0, 0, 0)

    @classmethod
    def of(cls, operations: int) -> "Counts":
        """So many operations, each whole, and no event."""
        return cls(0, operations, operations, operations, operations)


_COUNTS = text(
    """
    with o as (select id from acuse.operation where tenant = :tenant),
         e as (select id from acuse.event where tenant = :tenant)
    select (select count(*) from e), (select count(*) from o),
           (select count(*) from acuse.payload where id in (select id from o)),
           (select count(*) from acuse.ledger where operation_id in (select id from o)),
           (select count(*) from acuse.outbox_message where operation_id in (select id from o))
    """
)


def counts(where: Engine | Connection, tenant: str) -> Counts:
    """What is there, as the connection (or a fresh one) sees it."""
    if isinstance(where, Engine):
        with where.connect() as connection:
            return counts(connection, tenant)
    return Counts(*where.execute(_COUNTS, {"tenant": tenant}).one())
