"""The port of an adapter: what its author writes, and what the engine calls."""

from acuse_adapters.port.action import AdapterAction, action
from acuse_adapters.port.adapter import Adapter, Phase
from acuse_adapters.port.ended import Ended
from acuse_adapters.port.found import found_among
from acuse_adapters.port.operation import Operation, Pin
from acuse_adapters.port.reason import is_storable, storable
from acuse_adapters.port.reference import Reference, segment
from acuse_adapters.port.registry import ENTRY_POINTS, Registry
from acuse_adapters.port.version import contract_version

__all__ = [
    "ENTRY_POINTS",
    "Adapter",
    "AdapterAction",
    "Ended",
    "Operation",
    "Phase",
    "Pin",
    "Reference",
    "Registry",
    "action",
    "contract_version",
    "found_among",
    "is_storable",
    "segment",
    "storable",
]
