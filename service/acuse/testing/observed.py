"""What a test asks an outbox: what was staged, what became of it, and what the host was told. Errors list what is there."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import to_jsonable_python

from acuse.errors import ConfigurationError
from acuse.intent import Action, ActorLike, Event, actor_address, read_body
from acuse.protocol import State
from acuse.record import HistoryEntry, OperationRecord
from acuse.testing.behaviour import Script
from acuse.testing.book import Book
from acuse.testing.message import HostMessage, Incident
from acuse.testing.promises import Contracts, Promises
from acuse.testing.provider import Outcomes
from acuse.testing.rehearsal import Rehearsal

__all__ = ["ActionName", "Actors", "Observed", "refuse_awaitable"]

ActionName = str | type[Action]
"""An action, by its name or its class."""

Actors = Iterable[Any] | Mapping[str, Callable[..., Any]]
"""The host's actors that are called when they are told something: Dramatiq actors, or `queue/actor` → function."""

_LONGEST_SHOWN = 160


class Observed:
    """The questions. `Book` says where the answers come from."""

    def __init__(self, book: Book, contracts: Contracts | None = None) -> None:
        self._book = book
        self._rehearsal = Rehearsal(book, Promises(contracts))

    @property
    def now(self) -> datetime:
        """The ledger's time, by which approvals expire and operations come due."""
        return self._book.now

    def staged(
        self,
        action: ActionName | None = None,
        *,
        target: str | None = None,
        payload: Mapping[str, Any] | None = None,
        workflow: str | None = None,
        state: State | str | None = None,
    ) -> tuple[OperationRecord, ...]:
        """The operations that were staged, in their order; only those that are as asked for. payload: some of its fields."""
        return tuple(record for record, _ in self._matching(action, target, payload, workflow, state))

    def only(self, action: ActionName, *, target: str | None = None) -> OperationRecord:
        """The one operation of an action. Raises `AssertionError` if there is none, or more than one."""
        __tracebackhide__ = True
        return self.assert_staged(action, target=target, times=1)[0]

    def payload(self, operation: OperationRecord | str) -> dict[str, Any]:
        """The payload of an operation, in JSON types. Raises `AssertionError` if it is not there."""
        __tracebackhide__ = True
        wanted = operation if isinstance(operation, str) else operation.operation_id
        for record, payload in self._all():
            if record.operation_id == wanted:
                return payload
        raise AssertionError(f"{wanted} is not staged; {self._listed()}")

    def history(self, operation: OperationRecord | str) -> tuple[HistoryEntry, ...]:
        """Every transition, attempt and finding of an operation, as `Ledger.history` reads it."""
        return tuple(self._book.history(operation if isinstance(operation, str) else operation.operation_id))

    def published(self, event: str | type[Event] | None = None) -> tuple[dict[str, Any], ...]:
        """The payloads of what was published, in order; only of `event`, by its name or class."""
        name = event.declared.name if isinstance(event, type) else event
        return tuple(json.loads(body) for said, body in self._book.events() if name in (None, said))

    @property
    def told(self) -> tuple[HostMessage, ...]:
        """What the host's actors were told, as `on_settled`, or the callback of an approval, asked for it, in order."""
        now = self._book.now
        return tuple(message for message in self._book.messages() if message.told and message.available_at <= now)

    @property
    def sent(self) -> tuple[HostMessage, ...]:
        """The host's own messages, of `Outbox.send`, in order."""
        return tuple(message for message in self._book.messages() if not message.told)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """What must not happen and did: doubles, content that differs, contradictions."""
        return tuple(self._book.incidents())

    def assert_staged(
        self,
        action: ActionName,
        *,
        target: str | None = None,
        payload: Mapping[str, Any] | None = None,
        workflow: str | None = None,
        state: State | str | None = None,
        times: int | None = 1,
    ) -> tuple[OperationRecord, ...]:
        """Hold that an effect was staged, `times` times (None: at least once), and return the operations.

        payload: the fields that must be as given; others do not matter. Raises `AssertionError` that lists what was staged.
        """
        __tracebackhide__ = True
        found = self.staged(action, target=target, payload=payload, workflow=workflow, state=state)
        if len(found) == times or (times is None and found):
            return found
        wanted = "at least once" if times is None else _times(times)
        said = _described(_name(action), target, payload, workflow, state)
        raise AssertionError(f"expected {said} to be staged {wanted}, but it was staged {_times(len(found))}; {self._listed()}")

    def assert_nothing_staged(self, action: ActionName | None = None, *, target: str | None = None) -> None:
        """Hold that nothing was staged, or nothing like this. Raises `AssertionError` that lists what was staged."""
        __tracebackhide__ = True
        if found := self.staged(action, target=target):
            said = "nothing" if action is None else f"no {_described(_name(action), target, None, None, None)}"
            raise AssertionError(f"expected {said} to be staged, but {_times(len(found))} something was; {self._listed()}")

    def advance(self, by: timedelta) -> None:
        """Let time pass while nobody works: approvals expire, windows close, `not_after` passes. Raises `ValueError`."""
        if by < timedelta(0):
            raise ValueError("time passes forwards only; give a timedelta above zero")
        self._book.advance(by)

    def _ran(self, outcomes: Outcomes | None, during: timedelta, otherwise: Script, actors: Actors) -> "Iterator[_Call]":
        """Carry effects out; yields the calls of the host's actors, each to be made before it goes on."""
        __tracebackhide__ = True
        if during < timedelta(0):
            raise ValueError("during: time passes forwards only; give a timedelta above zero")
        if uncommitted := self._book.uncommitted():
            raise AssertionError(
                f"{len(uncommitted)} of the staged operations are not committed: no worker would see them, and nothing would be "
                f"sent; let your code commit its transaction first. {self._listed()}"
            )
        functions = _functions(actors)
        self._rehearsal.provider.will(outcomes or {}, otherwise)
        for message in self._rehearsal.run(during):
            function = functions.get(message.address)
            if function is not None:
                yield lambda function=function, message=message: function(*message.args, **message.kwargs)  # type: ignore[misc]
        staged = {(record.action, record.target) for record, _ in self._all()}
        if strange := self._rehearsal.provider.strange(staged):
            raise AssertionError(f"nothing was staged for {', '.join(strange)}, which outcomes names; {self._listed()}")

    def _matching(
        self,
        action: ActionName | None,
        target: str | None,
        payload: Mapping[str, Any] | None,
        workflow: str | None,
        state: State | str | None,
    ) -> Iterator[tuple[OperationRecord, dict[str, Any]]]:
        name, fields = None if action is None else _name(action), to_jsonable_python(dict(payload or {}))
        wanted = {"action": name, "target": target, "workflow": workflow, "state": None if state is None else State(state)}
        for record, its in self._all():
            same = all(value is None or getattr(record, field) == value for field, value in wanted.items())
            if same and all(field in its and its[field] == value for field, value in fields.items()):
                yield record, its

    def _all(self) -> Iterator[tuple[OperationRecord, dict[str, Any]]]:
        for record, body in zip(self._book.operations(), self._book.bodies(), strict=True):
            yield record, dict(read_body(body)[2])

    def _listed(self) -> str:
        uncommitted = set(self._book.uncommitted())
        lines = [f"  {n}. {_line(record, its, uncommitted)}" for n, (record, its) in enumerate(self._all(), 1)]
        return "\n".join(["what was staged:", *lines]) if lines else "nothing was staged"


_Call = Callable[[], Any]


def refuse_awaitable(called: object) -> None:
    """Raise `TypeError` for what only asynchronous code can wait for."""
    if inspect.iscoroutine(called):
        called.close()
    if inspect.isawaitable(called):
        raise TypeError("an actor is asynchronous; use the asynchronous outbox and `await outbox.run_effects(…)`")


def _name(action: ActionName) -> str:
    if isinstance(action, type) and issubclass(action, Action):
        return action.declared.name
    if not isinstance(action, str):
        raise TypeError(f"expected the name or the class of an action, got {type(action).__qualname__}")
    return action


def _described(
    action: str, target: str | None, payload: Mapping[str, Any] | None, workflow: str | None, state: State | str | None
) -> str:
    parts = [
        action,
        "" if target is None else f"on {target}",
        "" if payload is None else f"with {_shown(to_jsonable_python(dict(payload)))}",
        "" if workflow is None else f"in {workflow}",
        "" if state is None else f"and {state}",
    ]
    return " ".join(part for part in parts if part)


def _line(record: OperationRecord, payload: Mapping[str, Any], uncommitted: set[str]) -> str:
    where = "" if record.workflow is None else f" in {record.workflow}"
    waits = "" if record.waiting is None else f", waits ({record.waiting})"
    held = "" if record.held is None else ", held for a person"
    open_ = ", not committed" if record.operation_id in uncommitted else ""
    return f"{record.action} on {record.target}{where}: {record.state}{waits}{held}{open_} {_shown(payload)}"


def _shown(payload: Mapping[str, Any]) -> str:
    text = json.dumps(payload, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _functions(actors: Actors) -> dict[str, Callable[..., Any]]:
    if isinstance(actors, Mapping):
        return {actor_address(address): function for address, function in actors.items()}
    found = {}
    for actor in actors:
        function = getattr(actor, "fn", None)
        if not callable(function):
            raise ConfigurationError(f"actors: {actor!a} is no Dramatiq actor; give actors, or {{'queue/actor': function}}")
        found[actor_address(_as_actor(actor))] = function
    return found


def _as_actor(actor: Any) -> ActorLike:  # noqa: ANN401 - actor_address says what is missing
    known: ActorLike = actor
    return known
