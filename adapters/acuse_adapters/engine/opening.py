"""Reading the pinned intent back: the very bytes that were staged, or nothing is sent."""

import hashlib
from dataclasses import dataclass
from typing import Any

from acuse.errors import IntakeError
from acuse.identifier import operation_id
from acuse.intent import Effect, parse_action, read_body
from acuse.store.claim import Claimed
from acuse_adapters.port import AdapterAction, Operation

__all__ = ["Unreadable", "open_intent"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an intent cannot be carried out as it stands, for a person; `incident`: the kind, if its bytes were changed."""

    why: str
    incident: str | None = None


def open_intent(claimed: Claimed, declared: AdapterAction[Any]) -> Operation[Any] | Unreadable:
    """Return the operation as its adapter gets it. Its bytes are hashed again, whoever wrote them."""
    if claimed.body is None:
        return Unreadable("its payload is gone: retention dropped it")
    if hashlib.sha256(claimed.body).digest() != claimed.digest:
        return Unreadable("its stored payload no longer matches its digest", "payload_changed")
    try:
        action, target, payload = read_body(claimed.body)
        typed = parse_action(declared.payload, Effect(action, target, payload, claimed.account))
    except IntakeError as error:
        return Unreadable(f"its payload is not what {claimed.action} takes: {error}")
    return Operation(
        id=operation_id(claimed.id),
        tenant=claimed.tenant,
        account=claimed.account,
        target=claimed.target,
        payload=typed,
        attempt=claimed.attempts + 1,
        pin=claimed.pin or {},
    )
