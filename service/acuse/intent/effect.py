"""The untyped form of an effect: a change wanted in an external system."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acuse.errors import InvalidPayload
from acuse.intent.canonical import JSON
from acuse.intent.declared import DeclaredAction, check_action_name
from acuse.intent.digest import body
from acuse.intent.limits import MAX_ACCOUNT, MAX_PAYLOAD_DEPTH, check_target, check_text

__all__ = ["DEFAULT_ACCOUNT", "Effect"]

DEFAULT_ACCOUNT = "default"


@dataclass(frozen=True, slots=True)
class Effect:
    """Action (`crm.close_case.v1`), target (`case-318`, never an address), payload, and the provider account it goes to.

    The payload is copied, so that a caller that goes on changing its dict changes nothing here. Action, target and account are
    checked at once (`InvalidField`), the payload when its bytes are made (`body`).
    `declared` is set when a class of the action made or validated this effect; without it no identity and no order are known.
    """

    action: str
    target: str
    payload: Mapping[str, JSON]
    account: str = DEFAULT_ACCOUNT
    declared: DeclaredAction | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_action_name(self.action)
        check_target(self.target)
        check_text("account", self.account, MAX_ACCOUNT)
        if not isinstance(self.payload, Mapping):
            raise InvalidPayload(path="$", reason=f"a payload must be an object (dict), not {type(self.payload).__name__}")
        object.__setattr__(self, "payload", _copy(self.payload, 0))

    @property
    def provider(self) -> str:
        return self.action.partition(".")[0]

    @property
    def ordering_key(self) -> str | None:
        """What the action says about order; None for an effect that no class has validated."""
        return self.declared.ordering_key_of(self.payload) if self.declared else None

    def body(self) -> bytes:
        """Canonical bytes of action, target and payload. Raises `InvalidPayload`."""
        return body(self.action, self.target, self.payload)


def _copy(value: JSON, depth: int) -> JSON:
    """Own containers, the same leaves; deeper than intake allows nothing is copied, since it will be refused anyway."""
    if depth > MAX_PAYLOAD_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item, depth + 1) for item in value]
    return value
