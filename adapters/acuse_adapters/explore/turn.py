"""Taking turns: whoever wants to do a step says so and stands still until the schedule lets it go, one at a time.

A step is a statement, a COMMIT or an event on a network. Between two steps nothing else runs, so that a schedule is the order of
its steps and nothing else. A statement that waits for a lock in the database stays there, as it would in life; it is resumed by
the step that lets it go on. Only one is let wait: a second one is taken back and takes its turn later, since the database
does not say which of two goes on first.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sqlalchemy.util import await_only
from structlog.contextvars import get_contextvars

from acuse_adapters.explore.clock import Clock, OwnedLoop

__all__ = ["GO", "Gone", "Parked", "Process", "Turns", "Watch"]

GO: Final = "go"
LATER: Final = "later"


class Gone(BaseException):
    """The process in which this runs was killed. Nothing of it does another step."""


@dataclass(eq=False)
class Process:
    """Something that can be killed. `work`: the names of what runs in it."""

    name: str
    dead: bool = False
    work: dict[str, "asyncio.Task[Any]"] = field(default_factory=dict)


@dataclass(eq=False)
class Parked:
    """Who stands still, before what, and in which ways it may go on."""

    name: str
    process: Process
    what: str
    ways: tuple[str, ...]
    future: "asyncio.Future[Any]"
    postponed: bool = False


class Watch(Protocol):
    """What looks at the database from outside."""

    def waits(self, backend: int) -> bool:
        """Whether a session waits for a lock."""

    def waits_for(self, backend: int, other: int) -> bool:
        """Whether a session waits for another."""

    def cancel(self, backend: int) -> None:
        """End the statement of a session."""

    def set_clock(self, now: int) -> None:
        """Let it be so many microseconds since `BASE`."""


_PROCESS: ContextVar[Process] = ContextVar("explore_process")
_STRAND: ContextVar[str] = ContextVar("explore_strand")


class Turns:
    """Who stands where, and the story so far."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.clock = Clock()
        self.loop = OwnedLoop(self.clock)
        self.parked: dict[str, Parked] = {}
        self.hearing: list[Parked] = []
        self.blocked: Parked | None = None
        self.backend = 0  # of the blocked one
        self.story: list[str] = []
        self.steps = 0
        self.commits = 0
        self.wrong: list[str] = []
        self.names: dict[str, str] = {}  # of operations, by their ids
        self.judged: dict[str, int] = {}  # at which step an operation was let dispatch last

    # of who runs

    @property
    def acting(self) -> Process | None:
        """Whose code runs now; None for the explorer's own."""
        return _PROCESS.get(None)

    def start(self, process: Process, strand: str, work: Coroutine[Any, Any, Any]) -> None:
        """Let something run in a process, up to its first step."""
        context: Context = copy_context()
        context.run(_PROCESS.set, process)
        context.run(_STRAND.set, strand)
        task = self.loop.create_task(work, context=context)
        process.work[strand] = task
        task.add_done_callback(lambda _: process.work.pop(strand, None))
        self.loop.drain()

    def kill(self, process: Process) -> None:
        """Kill a process: what it was about to do it does not, and its transactions are rolled back."""
        process.dead = True
        for one in [*self.parked.values(), *self.hearing, *([self.blocked] if self.blocked else [])]:
            if one.process is process and not one.future.done():
                one.future.set_exception(Gone())
                self.loop.drain()
        self._go_on_blocked()

    # of who stands still

    async def park(self, what: str, ways: tuple[str, ...] = (GO,), *, postponed: bool = False) -> str:
        """Stand still before a step. Returns the way in which to go on. Raises `Gone`."""
        process = _PROCESS.get()
        if process.dead:
            raise Gone
        one = Parked(self._name(), process, what, ways, self.loop.create_future(), postponed)
        self.parked[one.name] = one
        try:
            return str(await one.future)
        finally:
            self._leave(one)

    async def hear(self, tell: Callable[[Parked], None]) -> Any:  # noqa: ANN401  # an answer
        """Wait for an answer, which is no step of ours. `tell` is told where it is waited for. Raises `Gone`."""
        heard = Parked(self._name(), _PROCESS.get(), "an answer", (), self.loop.create_future())
        self.hearing.append(heard)
        tell(heard)
        try:
            return await heard.future
        finally:
            self.hearing.remove(heard)

    def wait_turn(self, what: str, ways: tuple[str, ...] = (GO,), *, postponed: bool = False) -> str:
        """`park`, for synchronous code."""
        return await_only(self.park(what, ways, postponed=postponed))

    def wait_lock(self, backend: int) -> bool:
        """Stand still in the database. Returns whether the statement is to be taken back. Raises `Gone`."""
        if self.blocked is not None:
            return True
        self.backend = backend
        self.blocked = Parked(self._name(), _PROCESS.get(), "a lock", (), self.loop.create_future())
        self.tell("waits for a lock")
        try:
            await_only(self.blocked.future)
        except BaseException:
            self.blocked = None
            raise
        return False

    @property
    def free(self) -> list[Parked]:
        """Who may be let go, in the order of their names."""
        return [one for _, one in sorted(self.parked.items()) if not (one.postponed and self.blocked is not None)]

    def go(self, one: Parked, way: str = GO) -> None:
        """Let one do its step, and whoever that frees go on to its next."""
        self._leave(one)
        self.steps += 1
        self.story.append(f"{self.clock.seconds:.3f} {one.name} {one.what}" + ("" if way == GO else f" [{way}]"))
        one.future.set_result(way)
        self.loop.drain()
        self._go_on_blocked()

    def tell(self, what: str) -> None:
        """Add what came of a step to the story."""
        self.story.append(f"    {what}")

    def done(self, what: str) -> None:
        """Remember when a statement was done whose time matters."""
        if what == "dispatch":
            self.judged[str(get_contextvars().get("operation"))] = self.steps

    def event(self, what: str) -> None:
        """Add something to the story that nobody's step was."""
        self.steps += 1
        self.story.append(f"{self.clock.seconds:.3f} {what}")

    def pass_time(self, seconds: float) -> None:
        """Let time pass, for everybody at once."""
        self.clock.advance(seconds)
        self.watch.set_clock(self.clock.now)
        self.loop.drain()

    def accuse(self, what: str) -> None:
        """Say what is wrong."""
        self.wrong.append(what)
        self.story.append(f"    WRONG: {what}")

    def end(self) -> None:
        """End the loop, with whatever is left in it."""
        self.loop.close()

    def _go_on_blocked(self) -> None:
        while self.blocked is not None and not self.watch.waits(self.backend):
            one = self.blocked
            self.blocked = None
            self.story.append(f"    {one.name} goes on")
            one.future.set_result(GO)
            self.loop.drain()

    def _leave(self, one: Parked) -> None:
        if self.parked.get(one.name) is one:
            del self.parked[one.name]

    def _name(self) -> str:
        said = get_contextvars()
        name = _STRAND.get()
        if "operation" in said:
            name += f".{self.names.get(said['operation'], '?')}"
        while name in self.parked:
            name += "'"
        return name
