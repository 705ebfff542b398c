"""Acuse: a transactional outbox for the effects that agents cause, with a ledger that believes receipts and nothing else.

What a backend embeds. Names are loaded when they are first used, so that importing one part does not pay for the others.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from acuse.approval import ApprovalRecord, Approvals, ApprovalState, AsyncApprovals, Decision, Requested
    from acuse.errors import (
        AcuseError,
        ApprovalError,
        ConfigurationError,
        EffectConflict,
        IdentityMissing,
        InDoubt,
        IntakeError,
        InvalidField,
        InvalidPayload,
        NotFound,
        RetryTransaction,
        SchemaMismatch,
        UnknownAction,
        VersionConflict,
    )
    from acuse.intent import Action, ActionCatalog, Effect, Event, Plan, PlannedEffect, Routes
    from acuse.ledger import AsyncLedger, Cancellation, HistoryEntry, Ledger, OperationRecord, Page
    from acuse.outbox import AsyncOutbox, Outbox, Published, Staged, Wish
    from acuse.protocol import Receipt, State

    __version__: str

__all__ = [
    "Action",
    "ActionCatalog",
    "AcuseError",
    "ApprovalError",
    "ApprovalRecord",
    "ApprovalState",
    "Approvals",
    "AsyncApprovals",
    "AsyncLedger",
    "AsyncOutbox",
    "Cancellation",
    "ConfigurationError",
    "Decision",
    "Effect",
    "EffectConflict",
    "Event",
    "HistoryEntry",
    "IdentityMissing",
    "InDoubt",
    "IntakeError",
    "InvalidField",
    "InvalidPayload",
    "Ledger",
    "NotFound",
    "OperationRecord",
    "Outbox",
    "Page",
    "Plan",
    "PlannedEffect",
    "Published",
    "Receipt",
    "Requested",
    "RetryTransaction",
    "Routes",
    "SchemaMismatch",
    "Staged",
    "State",
    "UnknownAction",
    "VersionConflict",
    "Wish",
    "__version__",
]

_HOMES: Final = {
    "acuse.approval": ("ApprovalRecord", "ApprovalState", "Approvals", "AsyncApprovals", "Decision", "Requested"),
    "acuse.intent": ("Action", "ActionCatalog", "Effect", "Event", "Plan", "PlannedEffect", "Routes"),
    "acuse.ledger": ("AsyncLedger", "Cancellation", "HistoryEntry", "Ledger", "OperationRecord", "Page"),
    "acuse.outbox": ("AsyncOutbox", "Outbox", "Published", "Staged", "Wish"),
    "acuse.protocol": ("Receipt", "State"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # else every wrong name would pass for an object

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return version("acuse")
        if name not in __all__:
            raise AttributeError(f"module 'acuse' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF.get(name, "acuse.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
