"""The matrix as data: what is struck, how, for which contracts; `skipped` says why each pair that is left out is left out."""

from collections.abc import Iterator
from typing import Final

from acuse_adapters.faults.table.after import IN_DOUBT, REFUSED, RELEASE, SETTLED_MESSAGE
from acuse_adapters.faults.table.call import CALL, DISPATCH, SETTLE
from acuse_adapters.faults.table.claim import CLAIM, FETCH, PREPARE
from acuse_adapters.faults.table.evidence import EVIDENCE
from acuse_adapters.faults.table.intake import INTAKE, RELAY
from acuse_adapters.faults.table.row import Cell, Row

__all__ = ["ROWS", "Cell", "Row", "cells"]

ROWS: Final = (
    *INTAKE,
    *RELAY,
    *FETCH,
    *CLAIM,
    *PREPARE,
    *DISPATCH,
    *CALL,
    *SETTLE,
    *EVIDENCE,
    *RELEASE,
    *SETTLED_MESSAGE,
    *REFUSED,
    *IN_DOUBT,
)


def cells() -> Iterator[Cell]:
    """Every cell, in the order of an operation's life."""
    return (Cell(row, contract) for row in ROWS for contract in row.contracts)
