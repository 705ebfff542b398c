"""What a cell stages, as the business would, and under the same effect key when it does it again."""

from dataclasses import dataclass

from sqlalchemy import Connection

from acuse import Outbox
from acuse.intent import Action
from acuse_adapters.crm.action import CloseCase, LogNote
from acuse_adapters.email.action import SendEmail
from acuse_adapters.faults.words import Contract
from acuse_adapters.ticketing.action import CreateTicket

__all__ = ["SETTLED_ACTOR", "Wish"]

SETTLED_ACTOR = "faults-host/settled"


@dataclass(frozen=True, slots=True)
class Wish:
    """One effect under `contract` about `reference`; with a dependant, a note that may follow only when it is confirmed."""

    contract: str
    reference: str
    tenant: str
    dependant: bool = False
    told: bool = False

    def stage(self, connection: Connection) -> tuple[str, ...]:
        """Stage, and return the ids: the effect's, then its dependant's."""
        outbox = Outbox()
        wanted = self._action()
        first = outbox.stage(
            connection,
            wanted,
            effect_key=None if isinstance(wanted, CloseCase) else self.reference,  # a close says itself which one it is
            on_settled=SETTLED_ACTOR if self.told else None,
            tenant=self.tenant,
            workflow=self.reference,
        )
        if not self.dependant:
            return (first.operation_id,)
        note = LogNote(case=f"{self.reference}-note", text="it is done")
        key = f"{self.reference}-note"
        second = outbox.stage(connection, note, effect_key=key, after=first, tenant=self.tenant, workflow=self.reference)
        return first.operation_id, second.operation_id

    def _action(self) -> Action:
        match Contract(self.contract):
            case Contract.KEYED | Contract.KEY_EXPIRED:
                return CreateTicket(reference=self.reference, subject=f"{self.reference} wants help")
            case Contract.UPSERT:
                return LogNote(case=self.reference, text="onboarded")
            case Contract.UPSERT_GUARDED | Contract.STRONG:
                return CloseCase(case=self.reference, resolution="onboarded")
            case _:
                return SendEmail(
                    reference=self.reference, to="owner@example.test", subject=f"{self.reference} is closed", body="It is closed."
                )
