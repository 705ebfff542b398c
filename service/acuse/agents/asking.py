"""What the gate asks of approvals."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

from acuse.intent import Action, ActorLike, Effect

__all__ = ["GRANTED", "PENDING", "AsksForApproval", "refusal"]

PENDING: Final = "pending"
GRANTED: Final = "granted"

_REFUSALS: Final[Mapping[str, str]] = {
    "denied": "a person denied the approval",
    "expired": "the approval expired before anybody decided, or before it was used",
    "revoked": "the approval was revoked",
    "superseded": "another content was asked for in its place",
}


class AsksForApproval(Protocol):
    """`acuse.Approvals`, or `acuse.AsyncApprovals`, whose method is awaited."""

    def request(
        self,
        connection: Any,  # noqa: ANN401 - the face's own kind of connection
        said: Action | Effect,
        *,
        workflow: str | None = None,
        call: str | None = None,
        effect_key: str | None = None,
        by: str | None = None,
        reason: str | None = None,
        expires_in: timedelta | None = None,
        callback: ActorLike | str | None = None,
        anew: bool = False,
        tenant: str | None = None,
    ) -> Any:  # noqa: ANN401 - has approval_id and state
        """Ask once for an approval of this intent; asked again it is the same one, unless it has ended and is asked for anew."""
        ...


def refusal(state: str) -> str:
    """Why nothing is sent under an approval in this state."""
    return _REFUSALS.get(state, f"the approval is {state}")
