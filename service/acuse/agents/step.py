"""Which intent a call is: where it stands in the conversation and what it asks for. The model's ids and words play no part."""

import hashlib

from acuse.intent import Effect, canonical, effect_key

__all__ = ["given_key", "intent_key"]


def given_key(effect: Effect, workflow: str, step: int, position: int) -> str | None:
    """The host's own key for an effect whose action declares no identity; None for one that does.

    workflow: of the run, so that forks have the same keys. step: how many decisions the conversation holds, so that what is
    decided again after a rewind stands at the same place. Two equal calls of one turn differ by their position.
    """
    if effect.declared is not None and effect.declared.identity:
        return None
    parts = canonical([workflow, step, position, effect.action, effect.target])
    return "s:" + hashlib.sha256(parts).hexdigest()


def intent_key(effect: Effect, workflow: str, step: int, position: int) -> str:
    """The effect key of a call."""
    return effect_key(effect, workflow=workflow, given=given_key(effect, workflow, step, position))
