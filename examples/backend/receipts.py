"""What becomes of operations, as the backend hears it in an actor of its own."""

from typing import Any

import dramatiq
from sqlalchemy.orm import Session, sessionmaker

from acuse_adapters.crm.action import CloseCase
from examples.backend.tables import Case, Receipt

__all__ = ["QUEUE", "SETTLED", "declare"]

QUEUE = "backend"
SETTLED = f"{QUEUE}/settled"
"""What `on_settled` names: queue and actor."""

_CASE_IS = {"confirmed": "closed", "rejected": "open"}
"""What the end of a closing means for a case; of an unknown end it means nothing."""


def declare(broker: dramatiq.Broker, sessions: sessionmaker[Session]) -> "dramatiq.Actor[..., None]":
    """Declare the actor on a broker."""

    def settled(
        operation_id: str, version: int, action: str, target: str, state: str, result_id: str | None, **_more: object
    ) -> None:
        """Write the receipt down. A message comes at least once: operation and version, of which its id is made, tell."""
        with sessions.begin() as session:
            known = session.get(Receipt, operation_id, with_for_update=True)
            if known is not None and known.version >= version:
                return
            told = {"version": version, "case_id": target, "action": action, "state": state, "result_id": result_id}
            session.merge(Receipt(operation_id=operation_id, **told))
            _move_on(session, action, target, state)

    actor: Any = dramatiq.actor(broker=broker, queue_name=QUEUE, actor_name="settled")(settled)
    return actor  # type: ignore[no-any-return]


def _move_on(session: Session, action: str, target: str, state: str) -> None:
    if action != CloseCase.declared.name:
        return
    # Locked as it is where a case is closed, so that neither overwrites what the other one has seen.
    case = session.get(Case, target, with_for_update=True)
    if case is not None:
        case.status = _CASE_IS.get(state, case.status)
