"""Runs of agents: the statements of their life, each one function of the database with one JSON object in and one out.

What goes in is ASCII, what comes back is hex, so that neither the encoding nor the types of a host's connection matter.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from acuse.store.caller import Row
from acuse.store.statement import Statement

__all__ = [
    "ANSWER",
    "BEGIN",
    "CANCEL",
    "DECIDE",
    "FORGET",
    "FORK",
    "KEEP",
    "READ",
    "REWIND",
    "START",
    "TAKE",
    "TELL",
    "UNTOLD",
    "answer_of",
    "request",
]


def _function(call: str) -> Statement:
    return Statement(f"select encode(convert_to(cast({call} as text), 'UTF8'), 'hex')")


def _of_request(name: str) -> Statement:
    return _function(f"acuse.{name}(cast(cast(:request as text) as jsonb))")


START: Final = _of_request("start_run")
TAKE: Final = _of_request("take_run")
KEEP: Final = _of_request("keep_run")
DECIDE: Final = _of_request("decide_turn")
TELL: Final = _of_request("tell_run")
BEGIN: Final = _of_request("begin_call")
ANSWER: Final = _of_request("answer_call")
CANCEL: Final = _of_request("cancel_run")
FORK: Final = _of_request("fork_run")
REWIND: Final = _of_request("rewind_run")
READ: Final = _function("acuse.read_run(:tenant, :run_id)")
FORGET: Final = _function("acuse.forget_run(:tenant, :run_id)")
UNTOLD: Final = _function("acuse.untold(cast(cast(:id as text) as uuid))")


def request(**values: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """The values of a statement that takes one object."""
    return {"request": json.dumps(values)}


def answer_of(rows: Sequence[Row]) -> Any:  # noqa: ANN401 - JSON
    """What a function answered; None: there is no such run."""
    [[answer]] = rows
    return None if answer is None else json.loads(bytes.fromhex(answer))
