"""A row of the matrix, and its cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acuse_adapters.faults.strike import Strike
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817

__all__ = ["Cell", "Row"]


@dataclass(frozen=True)
class Row:
    """A boundary, a fault, how it strikes, the window that it hits, and the contracts that it is tried on.

    others: why not on the others. but: contracts for which the same strike hits another window. variant: tells rows of one pair
    apart. dependant, told: what is staged beside. slow: it waits for Dramatiq to give a worker up.
    """

    boundary: B
    fault: F
    strike: Strike
    window: W
    contracts: tuple[C, ...]
    others: str = ""
    variant: str = ""
    but: Mapping[C, W] = field(default_factory=dict, hash=False)
    dependant: bool = False
    told: bool = False
    slow: bool = False


@dataclass(frozen=True)
class Cell:
    """One row on one contract."""

    row: Row
    contract: C

    @property
    def name(self) -> str:
        """`boundary × fault × contract`, with the variant if there is one."""
        fault = f"{self.row.fault} ({self.row.variant})" if self.row.variant else str(self.row.fault)
        return f"{self.row.boundary} × {fault} × {self.contract}"

    @property
    def window(self) -> W:
        """The window that the strike hits."""
        return self.row.but.get(self.contract, self.row.window)
