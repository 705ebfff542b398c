"""When a finding contradicts what is settled: an incident, and nothing moves."""

from acuse.protocol.finding import Finding, Found, RefusedBefore
from acuse.protocol.state import State

__all__ = ["contradiction"]


def contradiction(state: State, finding: Finding) -> str | None:
    """Return the kind of incident that a finding opens over a settled operation, or None."""
    match state, finding:
        case State.REJECTED, Found():
            return "effect_after_rejection"
        case State.CONFIRMED, RefusedBefore():
            return "refusal_after_confirmation"
        case State.CONFIRMED, Found(content_matches=False):
            return "content_differs"
        case State.CONFIRMED, Found(copies=copies) if copies > 1:
            return "duplicate_effect"
        case _:
            return None
