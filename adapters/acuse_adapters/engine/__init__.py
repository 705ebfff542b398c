"""The engine: what carries operations out inside a worker."""

from acuse_adapters.engine.book import Book
from acuse_adapters.engine.counters import Counters
from acuse_adapters.engine.engine import Engine
from acuse_adapters.engine.moment import Moment, Moments

__all__ = ["Book", "Counters", "Engine", "Moment", "Moments"]
