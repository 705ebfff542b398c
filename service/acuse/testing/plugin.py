"""The pytest plugin: loaded by every run in an environment with Acuse, so it imports nothing of it before a test asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from acuse.testing.memory_outbox import AsyncMemoryOutbox, MemoryOutbox

__all__ = ["acuse_outbox", "async_outbox", "outbox"]


@pytest.fixture
def acuse_outbox() -> Callable[..., Any]:
    """Make an outbox for a test: `acuse_outbox()` in memory, `acuse_outbox(session)` in the session's transaction.

    For an asynchronous session it is awaited. Keywords: routes, catalog, tenant, contracts.
    """
    from acuse.testing.opening import open_outbox  # noqa: PLC0415 - paid for by those who use it

    return open_outbox


@pytest.fixture
def outbox(acuse_outbox: Callable[..., Any]) -> MemoryOutbox:
    """An outbox in memory that knows no routes. Name a fixture of yours `outbox` to have it with yours."""
    made: MemoryOutbox = acuse_outbox()
    return made


@pytest.fixture
def async_outbox(outbox: MemoryOutbox) -> AsyncMemoryOutbox:
    """The face of `outbox` for asynchronous code, on the same ledger."""
    return outbox.asynchronous()
