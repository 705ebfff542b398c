"""What the host says: events, effects, which intent they are, and what they lead to. Pure; no input or output."""

from acuse.intent.action import Action
from acuse.intent.actor import ActorLike, actor_address
from acuse.intent.canonical import JSON, PlainJSON, canonical, parse
from acuse.intent.catalog import ENTRY_POINT_GROUP, ActionCatalog, parse_action
from acuse.intent.declared import DeclaredAction, DeclaredEvent
from acuse.intent.digest import body, differing_paths, digest, read_body
from acuse.intent.effect import DEFAULT_ACCOUNT, Effect
from acuse.intent.event import Event
from acuse.intent.identity import effect_key, event_key, planned_key
from acuse.intent.limits import (
    MAX_ACCOUNT,
    MAX_ACTION,
    MAX_CALL,
    MAX_EFFECT_KEY,
    MAX_FLOW_VERSION,
    MAX_ORDERING_KEY,
    MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_DEPTH,
    MAX_TARGET,
    MAX_TENANT,
    MAX_WORKFLOW,
    check_moment,
    check_target,
    check_text,
    check_value,
)
from acuse.intent.model import payload_of
from acuse.intent.plan import Plan, PlannedEffect
from acuse.intent.route import Routes

__all__ = [
    "DEFAULT_ACCOUNT",
    "ENTRY_POINT_GROUP",
    "JSON",
    "MAX_ACCOUNT",
    "MAX_ACTION",
    "MAX_CALL",
    "MAX_EFFECT_KEY",
    "MAX_FLOW_VERSION",
    "MAX_ORDERING_KEY",
    "MAX_PAYLOAD_BYTES",
    "MAX_PAYLOAD_DEPTH",
    "MAX_TARGET",
    "MAX_TENANT",
    "MAX_WORKFLOW",
    "Action",
    "ActionCatalog",
    "ActorLike",
    "DeclaredAction",
    "DeclaredEvent",
    "Effect",
    "Event",
    "PlainJSON",
    "Plan",
    "PlannedEffect",
    "Routes",
    "actor_address",
    "body",
    "canonical",
    "check_moment",
    "check_target",
    "check_text",
    "check_value",
    "differing_paths",
    "digest",
    "effect_key",
    "event_key",
    "parse",
    "parse_action",
    "payload_of",
    "planned_key",
    "read_body",
]
