"""What can go wrong for a caller of Acuse, as one tree.

    AcuseError
    ├── IntakeError             what the host said was refused before anything was written
    │   ├── InvalidField        a field beside the payload: tenant, workflow, target, effect key, …
    │   ├── InvalidPayload      the payload, with the path of the first bad place in it
    │   ├── UnknownAction       nobody has registered this action
    │   └── IdentityMissing     nothing says which intent this is
    ├── EffectConflict          the same effect key stands for other content
    ├── InDoubt                 the same wish is on its way already and its end is not known
    ├── RetryTransaction        the database asks for the whole transaction again
    ├── SchemaMismatch          the tables in the database are not the ones that this version knows
    ├── NotFound                no such operation, approval, …
    ├── VersionConflict         somebody else changed the operation first
    ├── ApprovalError           an approval cannot be granted, decided, used or revoked like this
    ├── RunError                a run of an agent does not go on, or not by this owner: see acuse.agents.errors
    └── ConfigurationError      a mistake in code or settings; no input can cause it

Every error carries its facts as fields, and its text says what to do. No text holds a value of a payload, U+0000 or half of a
surrogate pair: any of them can be stored and logged as it is.
"""
# ruff: noqa: N818 - names state the fact, the tree says that they are errors

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

__all__ = [
    "AcuseError",
    "ApprovalError",
    "ConfigurationError",
    "EffectConflict",
    "IdentityMissing",
    "InDoubt",
    "IntakeError",
    "InvalidField",
    "InvalidPayload",
    "NotFound",
    "RetryTransaction",
    "SchemaMismatch",
    "UnknownAction",
    "VersionConflict",
]


def _revive(kind: type["AcuseError"], args: tuple[Any, ...]) -> "AcuseError":
    return kind.__new__(kind, *args)


class AcuseError(Exception):
    """The base of every error that Acuse raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors take keywords, so the usual way of copying and pickling an exception would not find back to them.
        return _revive, (type(self), self.args), self.__dict__

    def __copy__(self) -> Self:
        copy: Self = type(self).__new__(type(self), *self.args)
        copy.__dict__.update(self.__dict__)
        return copy


class IntakeError(AcuseError):
    """Refused before anything was written; the caller's transaction is still usable."""


class InvalidField(IntakeError):
    """A field beside the payload cannot be accepted. Fields: `field`, `reason`."""

    def __init__(self, *, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class InvalidPayload(IntakeError):
    """The payload cannot be accepted. Fields: `path` (`$.items[2].price`), `reason`; never the value."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(f"payload, at {path}: {reason}")
        self.path = path
        self.reason = reason


class UnknownAction(IntakeError):
    """Nobody has registered this action. Fields: `action`, `nearest` (registered names that look like it)."""

    def __init__(self, *, action: str, nearest: Sequence[str] = ()) -> None:
        meant = f"did you mean {' or '.join(nearest)}?" if nearest else "no registered name looks like it;"
        super().__init__(
            f"action {action!a} is not registered; {meant} "
            "Register its class with ActionCatalog.register, or install the package that offers it in the "
            "entry-point group 'acuse.actions'"
        )
        self.action = action
        self.nearest = tuple(nearest)


class IdentityMissing(IntakeError):
    """Nothing says which intent this is, so that a repetition could not be told from a second wish. Field: `action`."""

    def __init__(self, *, action: str) -> None:
        super().__init__(
            f"{action}: nothing says which intent this is; give workflow and call (the stored id of the tool call), "
            "or effect_key, or declare identity=(…) on the action"
        )
        self.action = action


class EffectConflict(AcuseError):
    """The effect key stands for another action, target or payload. Nothing was written.

    Fields: `operation_id` (the operation that has the key), `paths` (where the contents differ; never the values).
    """

    def __init__(self, *, operation_id: str, paths: Sequence[str] = ()) -> None:
        where = ", ".join(paths) if paths else "unknown places"
        super().__init__(
            f"the effect key belongs to {operation_id}, whose content differs at {where}; "
            "if this is a new intent give it its own effect_key (or call), if it is the same one stage the same content"
        )
        self.operation_id = operation_id
        self.paths = tuple(paths)


class InDoubt(AcuseError):
    """The same wish is on its way already and its end is not known. Field: `operation_id`."""

    def __init__(self, *, operation_id: str) -> None:
        super().__init__(
            f"{operation_id} asks for the same and is not settled; wait for it or have it reviewed, "
            "or stage with distinct=True if a deliberate repetition is meant"
        )
        self.operation_id = operation_id


class RetryTransaction(AcuseError):
    """A serialization failure or deadlock: run the whole transaction again. Field: `sqlstate` (`40001`, `40P01`) if known."""

    def __init__(self, *, sqlstate: str | None = None) -> None:
        super().__init__(
            f"the database could not order this transaction among others ({sqlstate or 'no SQLSTATE'}); "
            "roll back and run the whole transaction again"
        )
        self.sqlstate = sqlstate


class SchemaMismatch(AcuseError):
    """The tables are not the ones that this version knows. Fields: `found` (None: no tables at all), `wanted`."""

    def __init__(self, *, found: str | None, wanted: str) -> None:
        state = f"is at version {found}" if found is not None else "has no acuse schema"
        super().__init__(f"the database {state}, this version of acuse needs {wanted}; run `acuse migrate`")
        self.found = found
        self.wanted = wanted


class NotFound(AcuseError):
    """There is no such thing for this tenant. Fields: `what` (`operation`, `approval`, …), `id`."""

    def __init__(self, *, what: str, id: str) -> None:  # noqa: A002 - the word of the domain
        super().__init__(f"no {what} {id!a}; check the id and the tenant, it may also be past its retention")
        self.what = what
        self.id = id


class VersionConflict(AcuseError):
    """Somebody else changed the operation first; nothing was written.

    Fields: `operation_id`, `expected` and `found` (record versions), `by` and `at` (who and when, if known).
    """

    def __init__(
        self, *, operation_id: str, expected: int, found: int | None = None, by: str | None = None, at: datetime | None = None
    ) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at.isoformat()}" if at else ""
        now = f", it is at {found}" if found is not None else ""
        super().__init__(
            f"{operation_id} was changed{who}{when} after version {expected} was read{now}; read it again and decide anew"
        )
        self.operation_id = operation_id
        self.expected = expected
        self.found = found
        self.by = by
        self.at = at


class ApprovalError(AcuseError):
    """An approval cannot be granted, decided, used or revoked like this.

    Fields: `reason`, `approval_id` if there is one, `state` (`expired`, `superseded` or `revoked`) for a late decision.
    """

    def __init__(self, *, reason: str, approval_id: str | None = None, state: str | None = None) -> None:
        super().__init__(f"approval {approval_id}: {reason}" if approval_id else f"approval: {reason}")
        self.reason = reason
        self.approval_id = approval_id
        self.state = state


class ConfigurationError(AcuseError):
    """A mistake in code or settings, found when it is loaded; no input can cause it."""
