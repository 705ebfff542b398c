"""Tools and what their authors say of them: a nature, a risk, and why."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from acuse.agents.call import ToolCall
from acuse.agents.intake import MAX_TOOL
from acuse.agents.nature import Nature, Need, Risk
from acuse.errors import ConfigurationError, IntakeError, InvalidField
from acuse.intent import MAX_TARGET, Action, ActorLike, Effect, actor_address, check_text

__all__ = ["NotDone", "Tool", "Tools"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SHORTEST_WHY: Final = 10  # characters: a sentence, not a label
_ANYTHING: Final = TypeAdapter(Any)


class NotDone(Exception):  # noqa: N818 - it says what is true
    """Raised by a tool that is certain to have changed nothing; any other error of it says nothing of that."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool. Made by `Tools`, which says what the fields mean."""

    name: str
    nature: Nature
    risk: Risk
    why: str
    function: Callable[..., Any] | None = None
    check: Callable[..., Any] | None = None
    target: Callable[[Mapping[str, Any]], str] | None = None
    action: type[Action] | None = None
    make: Callable[..., Action | Effect] | None = None
    approval: Need = Need.NOT_NEEDED
    approval_expires_in: timedelta | None = None
    callback: ActorLike | str | None = field(default=None)
    on_settled: ActorLike | str | None = field(default=None)

    def arguments_of(self, call: ToolCall) -> dict[str, Any]:
        """The call's arguments, which fit the tool. Raises `IntakeError`: then nothing has run."""
        arguments = call.parsed()
        if self.function is not None:
            try:
                inspect.signature(self.function).bind(**arguments)
            except TypeError as error:
                raise InvalidField(field="arguments", reason=f"do not fit {self.name}: {error}") from None
        return arguments

    def effect_of(self, call: ToolCall) -> Effect:
        """The effect that the call asks for. Raises `IntakeError`, and what `make` raises: then nothing was staged."""
        arguments = self.arguments_of(call)
        if self.nature is not Nature.EFFECT:
            target = self.target_of(arguments) or self.name
            return Effect(f"host.{self.name.lower()}.v1", target, arguments)
        said = self._action(call) if self.make is None else self.make(**arguments)
        return said.effect() if isinstance(said, Action) else said

    def target_of(self, arguments: Mapping[str, Any]) -> str | None:
        """What an overwriting tool writes to: the tool as a whole, unless it says which part."""
        if self.target is None:
            return self.name if self.nature is Nature.OVERWRITES else None
        return check_text("target", str(self.target(arguments)), MAX_TARGET)

    def _action(self, call: ToolCall) -> Action:
        assert self.action is not None
        try:
            return self.action.model_validate_json(call.arguments or "{}")
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise InvalidField(field="arguments", reason=f"do not fit {self.name}, at {where or '$'}: {first['msg']}") from None


class Tools:
    """The tools of an agent, by name.

    Of each: `risk`, what a wrong or second execution costs, and `why` it is so, as a sentence for whoever reviews it.
    approval: whether a person has to approve each call. Mistakes raise `ConfigurationError` where the tool is declared.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def read_only(self, *, risk: Risk, why: str, name: str | None = None) -> Callable[[_Function], _Function]:
        """Declare a function that changes nothing. It runs again on resume."""
        return self._declare(Nature.READ_ONLY, risk, why, name)

    def overwrites(
        self,
        *,
        risk: Risk,
        why: str,
        target: str | Callable[[Mapping[str, Any]], str] | None = None,
        name: str | None = None,
        approval: Need = Need.NOT_NEEDED,
        approval_expires_in: timedelta | None = None,
        callback: ActorLike | str | None = None,
    ) -> Callable[[_Function], _Function]:
        """Declare a function that leaves the same state however often it runs.

        target: the argument (or a function of the arguments) that says what is written to. A call that may have run runs again
        only if no later call of this tool has begun to write there; without a target any later call counts.
        """
        return self._declare(
            Nature.OVERWRITES,
            risk,
            why,
            name,
            target=_target(target),
            approval=approval,
            approval_expires_in=approval_expires_in,
            callback=callback,
        )

    def ensures(
        self,
        *,
        find: Callable[..., Any],
        risk: Risk,
        why: str,
        target: str | Callable[[Mapping[str, Any]], str] | None = None,
        name: str | None = None,
        approval: Need = Need.NOT_NEEDED,
        approval_expires_in: timedelta | None = None,
        callback: ActorLike | str | None = None,
    ) -> Callable[[_Function], _Function]:
        """Declare a function that makes what is missing.

        find: with the same arguments, returns what is there, or None. It is asked before every run. It must know the thing by a
        strong identity, and see what was made a moment ago: what it overlooks is made twice.
        """
        return self._declare(
            Nature.ENSURES,
            risk,
            why,
            name,
            check=find,
            target=_target(target),
            approval=approval,
            approval_expires_in=approval_expires_in,
            callback=callback,
        )

    def appends(
        self,
        *,
        risk: Risk,
        why: str,
        already: Callable[..., Any] | None = None,
        target: str | Callable[[Mapping[str, Any]], str] | None = None,
        name: str | None = None,
        approval: Need = Need.NOT_NEEDED,
        approval_expires_in: timedelta | None = None,
        callback: ActorLike | str | None = None,
    ) -> Callable[[_Function], _Function]:
        """Declare a function that adds something each time.

        A call that may have run does not run again: its outcome is unknown. already: with the stored `ToolCall`, says
        whether that very call has left its trace, conclusively; with it, a call that left none runs again.
        """
        return self._declare(
            Nature.APPENDS,
            risk,
            why,
            name,
            check=already,
            target=_target(target),
            approval=approval,
            approval_expires_in=approval_expires_in,
            callback=callback,
        )

    def effect(
        self,
        name: str,
        *,
        action: type[Action],
        risk: Risk,
        why: str,
        approval: Need,
        make: Callable[..., Action | Effect] | None = None,
        approval_expires_in: timedelta | None = None,
        callback: ActorLike | str | None = None,
        on_settled: ActorLike | str | None = None,
    ) -> Tool:
        """Declare a tool that becomes an operation: it is staged, never run here.

        make: the action out of the model's arguments, where these are not its fields. callback, on_settled: the host's actors
        that are told of the approval, and of how the operation ended.
        """
        tool = Tool(
            name=_name(name),
            nature=Nature.EFFECT,
            risk=Risk(risk),
            why=_why(name, why),
            action=action,
            make=make,
            approval=Need(approval),
            approval_expires_in=approval_expires_in,
            callback=callback,
            on_settled=on_settled,
        )
        return self._add(tool)

    def get(self, name: str) -> Tool | None:
        """The tool of a name, if there is one."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def _declare(
        self,
        nature: Nature,
        risk: Risk,
        why: str,
        name: str | None,
        **more: Any,  # noqa: ANN401 - fields of Tool, named by the public methods
    ) -> Callable[[_Function], _Function]:
        def declare(function: _Function) -> _Function:
            known = _name(getattr(function, "__name__", "") if name is None else name)
            tool = Tool(name=known, nature=nature, risk=Risk(risk), why=_why(known, why), function=function, **more)
            if tool.approval is Need.REQUIRED:
                _check_approvable(tool)
            self._add(tool)
            return function

        return declare

    def _add(self, tool: Tool) -> Tool:
        if tool.name in self._tools:
            raise ConfigurationError(f"tool {tool.name!a} is declared twice; give one another name")
        for where, actor in (("callback", tool.callback), ("on_settled", tool.on_settled)):
            _check_actor(tool.name, where, actor)
        self._tools[tool.name] = tool
        return tool


def text_of(value: object) -> str:
    """What a tool returned, for the model: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if value is None:
        return "Done."
    try:
        return json.dumps(_ANYTHING.dump_python(value, mode="json", warnings=False), ensure_ascii=False)
    except ValueError:
        return str(value)


def _name(name: str) -> str:
    try:
        return check_text("tool", name, MAX_TOOL)
    except IntakeError as error:
        raise ConfigurationError(f"a tool needs a name: {error}") from None


def _why(name: str, why: str) -> str:
    if not isinstance(why, str) or len(why.strip()) < _SHORTEST_WHY:
        raise ConfigurationError(f"tool {name!a}: why= must say in a sentence why its risk is what it is")
    return why


def _check_actor(name: str, where: str, actor: ActorLike | str | None) -> None:
    try:
        if actor is not None:
            actor_address(actor, where)
    except IntakeError as error:
        raise ConfigurationError(f"tool {name!a}: {error}") from None


def _target(target: str | Callable[[Mapping[str, Any]], str] | None) -> Callable[[Mapping[str, Any]], str] | None:
    if isinstance(target, str):
        name = target
        return lambda arguments: str(arguments.get(name, ""))
    return target


def _check_approvable(tool: Tool) -> None:
    try:
        Effect(f"host.{tool.name.lower()}.v1", tool.name, {})
    except IntakeError as error:
        raise ConfigurationError(f"tool {tool.name!a}: an approval cannot name it: {error}") from None
