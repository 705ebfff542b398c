"""What the gate does, as generators that say each act and are told its result: the two faces differ only in how they act.

Whatever an act raises is raised inside the script, so that it decides what that means.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from acuse.agents.writing import Step
from acuse.errors import RetryTransaction
from acuse.store.failure import worth_repeating

__all__ = ["TRIES", "Act", "Do", "Invoke", "Script", "Transact", "Wait", "again", "step"]

_T = TypeVar("_T")

TRIES: Final = 3
"""Of one transaction. Each is written so that running it again, also after a COMMIT whose reply was lost, changes nothing."""


@dataclass(frozen=True, slots=True)
class Do:
    """Something on the session of the transaction: a face's method, which may be a coroutine."""

    what: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Invoke:
    """A function of the host, outside any transaction."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """The record of an operation, settled or after so many seconds."""

    operation: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Transact:
    """A script of `Do` and `Step` acts in one transaction, which is committed before its result is told."""

    body: Callable[[], "Script[Any]"]


Act: TypeAlias = Do | Step[Any] | Invoke | Wait | Transact
Script: TypeAlias = Generator[Act, Any, _T]


def step(one: Step[_T]) -> Script[_T]:
    """One statement of the journal."""
    result: _T = yield one
    return result


def again(error: BaseException, tries: int) -> bool:
    """Whether a transaction is worth another try."""
    return tries < TRIES and (isinstance(error, RetryTransaction) or worth_repeating(error))
