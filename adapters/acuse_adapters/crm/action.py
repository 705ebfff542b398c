"""What can be wanted of the CRM."""

from typing import Annotated, Final

from pydantic import Field

from acuse.intent import Action
from acuse_adapters.port.reference import Reference

__all__ = ["ACTIONS", "CloseCase", "LogNote"]


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case", "occurrence"), overwrites=True):
    """Close a case.

    occurrence: how often the case was reopened before; a case that is closed again is another intent.
    """

    case: Reference
    resolution: Annotated[str, Field(min_length=1, max_length=500)]
    occurrence: Annotated[int, Field(ge=0)] = 0


class LogNote(Action, name="crm.log_note.v1", target="case"):
    """Write a note on a case."""

    case: Reference
    text: Annotated[str, Field(min_length=1, max_length=20_000)]


ACTIONS: Final[tuple[type[Action], ...]] = (CloseCase, LogNote)
