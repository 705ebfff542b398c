"""Room in a worker, given to tenants in turns."""

import asyncio
from contextlib import AsyncExitStack

from acuse_adapters.engine.room import Room


async def settle_down() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Inside:
    """Operations that come, in order, and stay until they are let go."""

    def __init__(self, size: int) -> None:
        self.room, self.entered = Room(size), list[str]()
        self.stay: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        for name in names:
            self.stay[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._be(name))
        await settle_down()

    async def _be(self, name: str) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.room.of(name[0]))
            self.entered.append(name)
            await self.stay[name].wait()

    async def go(self, name: str) -> None:
        self.stay[name].set()
        await settle_down()


async def test_one_operation_waits_for_one_of_each_other_tenant_and_not_for_their_backlog() -> None:
    inside = Inside(2)
    await inside.come("a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2")
    assert inside.entered == ["a1", "a2"]
    for leaving in ("a1", "a2", "a3", "b1", "c1", "a4"):
        await inside.go(leaving)
    assert inside.entered == ["a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"]


async def test_a_place_is_used_again_and_none_is_made() -> None:
    inside = Inside(1)
    await inside.come("a1", "a2")
    await inside.go("a1")
    await inside.go("a2")
    await inside.come("b1", "b2")
    assert inside.entered == ["a1", "a2", "b1"]


async def test_who_is_torn_off_while_it_waits_takes_no_place_with_it() -> None:
    inside = Inside(1)
    await inside.come("a1", "b1", "b2")
    inside.tasks["b1"].cancel()
    await settle_down()
    await inside.go("a1")
    assert inside.entered == ["a1", "b2"]


async def test_a_place_that_comes_together_with_the_cancellation_goes_to_the_next() -> None:
    inside = Inside(1)
    async with inside.room.of("a"):
        await inside.come("b1", "c1")
    inside.tasks["b1"].cancel()  # it has its place, and has not run since
    await settle_down()
    assert inside.entered == ["c1"]
