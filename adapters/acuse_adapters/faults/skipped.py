"""Every pair that is not struck, and every contract that a struck pair is not tried on, each with its reason."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from acuse_adapters.faults.table import ROWS
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817

__all__ = ["Skipped", "skipped"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A pair that is left out for one contract, or for `every contract`."""

    boundary: str
    fault: str
    contract: str
    reason: str


NO_TOKEN: Final = "no adapter here serves a one-time token; the model check of the protocol walks it"  # noqa: S105

# Why a fault is not tried at a boundary that has no row of its own below.
AT_NO_OTHER: Final[Mapping[F, str]] = {
    F.KILL: "the process has nothing in its hands there that the boundary before or after it does not cover",
    F.TERM: "nothing starts after SIGTERM and what runs is finished: the boundary before and the one after show it",
    F.CUT: "no connection of ours is in use at this boundary",
    F.COMMIT_REPLY_LOST: "nothing is committed at this boundary",
    F.DATABASE_RESTART: "no statement runs at this boundary; the boundary before and the one after show a restart",
    F.REDIS_RESTART: "the broker is not asked between fetch and ack; a restart there is one at the ack",
    F.REDIS_WIPED: "the broker is not asked there; a message that is gone is found missing in the same way as at the claim",
    F.REDIS_FULL: "only what writes to the broker can meet it: push, fetch, ack",
    F.PROVIDER_STALLS: "no provider is called at this boundary",
    F.CLOCK: "only the database's clock is read here; the claim and the look-up show a worker that is wrong about the time",
    F.DELIVERED_TWICE: "no message of an operation is in a worker's hands at this boundary",
    F.FORGED: "a message is believed, or not, when it is handled: the boundaries of the same worker around it show that",
    F.STALLED_WORKER: "no worker holds a claim at this boundary",
}

AT: Final[Mapping[tuple[B, F], str]] = {
    (B.STAGE_COMMIT, F.REDIS_WIPED): "no commit of the business waits for Redis: it is not asked",
    (
        B.SETTLE_COMMIT,
        F.STALLED_WORKER,
    ): "a worker stopped inside its transaction keeps the row locked: nobody can take over before it wakes",
    (B.DISPATCH_COMMIT, F.PROVIDER_STALLS): "nothing has been sent yet",
    (B.REPLY_RECEIVED, F.PROVIDER_STALLS): "the provider has answered",
    (
        B.SETTLED_MESSAGE,
        F.REDIS_WIPED,
    ): "a host's own message is handed to its broker once; whoever loses the broker asks the ledger",
    (
        B.SETTLED_MESSAGE,
        F.DELIVERED_TWICE,
    ): "a message to the host may come twice, as its documentation says: it carries its own id",
    (B.RELEASE, F.PROVIDER_STALLS): "the provider of the first operation has answered; the dependant's own call is a row above",
    (B.CLAIM, F.REDIS_FULL): "a claim asks the database only",
    (B.CONNECT, F.KILL): "nothing has left, as after the dispatch's COMMIT: that row kills there",
    (B.CONNECT, F.STALLED_WORKER): "nothing has left, as after the dispatch's COMMIT: that row stops the worker there",
    (
        B.PROVIDER_APPLIED,
        F.STALLED_WORKER,
    ): "the same as with the bytes sent: the answer waits in the socket until the worker wakes",
    (B.ACK, F.STALLED_WORKER): "the claim has ended with the settlement: nobody can overtake it",
    (B.BYTES_SENT, F.REDIS_WIPED): "as with the effect applied: the broker is not asked in between",
}


@cache
def skipped() -> tuple[Skipped, ...]:
    """Everything that is left out."""
    return tuple(_skipped())


def _skipped() -> Iterator[Skipped]:
    for boundary in B:
        for fault in F:
            rows = [row for row in ROWS if (row.boundary, row.fault) == (boundary, fault)]
            if not rows:
                yield Skipped(boundary, fault, "every contract", AT.get((boundary, fault), AT_NO_OTHER[fault]))
                continue
            tried = {contract for row in rows for contract in row.contracts}
            for contract in C:
                if contract not in tried:
                    reason = NO_TOKEN if contract is C.TOKEN else next(row.others for row in rows if row.others)
                    yield Skipped(boundary, fault, contract, reason)
