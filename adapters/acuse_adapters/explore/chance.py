"""Owning what is chance elsewhere: jitter, tokens, and the worker's own clock. The rest is owned by the ledger's functions."""

import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from acuse_adapters.explore.clock import Clock

__all__ = ["owned"]

_ENGINE: Final = "acuse_adapters.engine"


@dataclass(frozen=True)
class _Own:
    module: str
    name: str
    value: Any


@contextmanager
def owned(seed: int, clock: Clock) -> Iterator[None]:
    """Let the worker's modules draw from a seed and live in a clock, for a while."""
    dice = random.Random(seed)  # noqa: S311  # dice, not a secret
    time = SimpleNamespace(monotonic=lambda: clock.seconds)
    owns = (
        _Own(f"{_ENGINE}.book", "random", dice),
        _Own(f"{_ENGINE}.book", "uuid4", lambda: UUID(int=dice.getrandbits(128), version=4)),
        _Own(f"{_ENGINE}.pace", "random", dice),
        _Own(f"{_ENGINE}.carrier", "time", time),
        _Own(f"{_ENGINE}.engine", "time", time),
    )
    before = [(own, getattr(importlib.import_module(own.module), own.name)) for own in owns]
    try:
        for own in owns:
            setattr(importlib.import_module(own.module), own.name, own.value)
        yield
    finally:
        for own, value in before:
            setattr(importlib.import_module(own.module), own.name, value)
