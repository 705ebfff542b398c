"""The outbox in memory against the real one: the same scripts in both, compared field by field."""

from typing import Any

import pytest
from fidelity import ACTORS, CATALOG, SCRIPT, Step, compare
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from acuse.testing import behaviour as behaviours


# Phase.shrink would take minutes against a database; a failing script is short enough to be read.
@given(script=SCRIPT, known=st.booleans())
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_what_hosts_say_and_what_becomes_of_it_is_the_same_in_memory_as_in_the_database(
    engine: Engine, tenant: str, script: list[Step], known: bool
) -> None:
    compare(engine, tenant, script, CATALOG if known else None)


_QUIET: dict[str, Any] = {
    "typed": True,
    "call": None,
    "key": None,
    "distinct": False,
    "ordering": None,
    "tells": None,
    "value": None,
    "account": None,
    "after": None,
    "succeeds": None,
    "compensates": None,
    "approval": None,
    "ends": None,
    "chained": False,
    "workflow": "w1",
    "flow": None,
    "case": "case-1",
    "payload": 0,
    "action": "email.send.v1",
}


def said(**how: Any) -> Step:
    return ("stage", _QUIET | how)


def ran(outcome: Any, during: float = 0, *actions: str) -> Step:
    return ("run", {"actions": list(actions or ["email.send.v1"]), "outcome": outcome, "during": during})


def granted(**how: Any) -> Step:
    return ("grant", {"case": "case-1", "payload": 0, "action": "email.send.v1", "uses": None, "lasts": None, **how})


def asked(**how: Any) -> Step:
    quiet = {"case": "case-1", "payload": 0, "action": "email.send.v1", "workflow": "w1", "lasts": None, "anew": False}
    return ("request", quiet | how)


def answered(which: int, *, approve: bool = True, by: str = "ada") -> Step:
    return ("decide", {"which": which, "approve": approve, "by": by})


GIVE_UP: Step = ("cancel", {"what": "workflow", "workflow": "w1", "which": 0})

SCRIPTS: dict[str, list[Step]] = {
    "the same intent, the same again, other words, another account": [
        said(call="t1"),
        said(call="t1"),
        said(call="t1", payload=1),
        said(call="t1", account="other"),
        said(call="t2"),
        said(call="t2", distinct=True),
    ],
    "asked again in other words while the first is in doubt": [
        said(call="t1"),
        ran(behaviours.vanished),
        said(call="t2", payload=1),
        said(call="t3", payload=1, distinct=True),
        said(call="t4", payload=1, workflow="w2"),
    ],
    "a rejected one is taken up, one in doubt and one confirmed are not": [
        said(call="t1"),
        ran(behaviours.refused),
        said(succeeds=0),
        said(succeeds=0, payload=1),
        said(succeeds=0, case="case-2"),
        ran(behaviours.vanished),
        said(succeeds=1),
        ran(behaviours.accepted, 3600),
        said(succeeds=1),
    ],
    "an event that was said before, with other content, and without a key": [
        ("publish", {"case": "case-1", "payload": 0, "known": True, "workflow": "w1"}),
        ("publish", {"case": "case-1", "payload": 0, "known": True, "workflow": "w1"}),
        ("publish", {"case": "case-1", "payload": 1, "known": True, "workflow": "w1"}),
        ("publish", {"case": "case-1", "payload": 0, "known": False, "workflow": "w1"}),
        ("publish", {"case": "case-1", "payload": 0, "known": False, "workflow": "w1"}),
    ],
    "of a list that is refused nothing stays": [
        said(call="t1"),
        (
            "many",
            {
                "wishes": [_QUIET | {"call": "t2", "case": "case-2"}, _QUIET | {"call": "t1", "payload": 1}],
                "workflow": "w1",
                "flow": None,
            },
        ),
        (
            "many",
            {
                "wishes": [_QUIET | {"call": "t2", "case": "case-2"}, _QUIET | {"call": "t3", "chained": True}],
                "workflow": "w2",
                "flow": None,
            },
        ),
    ],
    "an approval is bound, used up, expired, revoked": [
        granted(uses=1),
        said(call="t1", approval=0),
        said(call="t2", approval=0, payload=1),
        said(call="t2", approval=0, distinct=True),
        ran(behaviours.accepted),
        granted(lasts=60),
        said(call="t3", approval=1, workflow="w2"),
        ("advance", {"by": 61}),
        ran(behaviours.accepted),
        granted(),
        said(call="t4", approval=2, workflow="w3"),
        ("revoke", {"which": 2}),
        ran(behaviours.accepted),
    ],
    "an operation waits for an approval that is pending, goes when it is granted, and not when it is denied": [
        asked(call="t1"),
        said(call="t1", approval=0, tells=ACTORS),
        ran(behaviours.accepted, 30),
        answered(0),
        answered(0, approve=False, by="bob"),
        ran(behaviours.accepted),
        asked(call="t2", case="case-2"),
        said(call="t2", case="case-2", approval=1),
        said(call="t3", case="case-2", approval=1, distinct=True),
        answered(1, approve=False),
        ran(behaviours.accepted),
        asked(call="t2", case="case-2"),
        asked(call="t2", case="case-2", anew=True),
    ],
    "a request is superseded by other content, and expires by itself": [
        asked(call="t1", lasts=60),
        said(call="t1", approval=0, workflow="w1"),
        asked(call="t1", payload=1, lasts=60),
        answered(0),
        ran(behaviours.accepted),
        said(call="t1", approval=1, payload=1, succeeds=0),
        asked(call="t5", lasts=60, case="case-5"),
        said(call="t5", approval=2, case="case-5"),
        ran(behaviours.accepted, 61),
        answered(2),
        ("revoke", {"which": 2}),
    ],
    "a pattern has its limits": [
        ("pattern", {"action": "email.send.v1", "prefix": "case-", "uses": 2, "most": None}),
        said(call="t1", approval=0),
        said(call="t2", case="case-2", approval=0),
        said(call="t3", case="case-3", approval=0),
        said(call="t4", case="other", approval=0),
        ran(behaviours.lost_reply, 30),
        ("pattern", {"action": "email.send.v1", "prefix": None, "uses": None, "most": 10}),
        said(call="t5", case="case-5", approval=1),
    ],
    "dependants and chains wait behind a doubt and go when it is settled": [
        said(call="t1", ordering="chain", tells=ACTORS),
        said(call="t2", case="case-2", after=0),
        said(call="t3", case="case-3", ordering="chain"),
        said(call="t4", case="case-4", after=1),
        ran(behaviours.lagging),
        ran(behaviours.accepted, 30),
        ran(behaviours.accepted, 400),
    ],
    "dependants of a rejected one are rejected": [
        said(call="t1", tells=ACTORS),
        said(call="t2", case="case-2", after=0, tells=ACTORS),
        ran(behaviours.refused),
    ],
    "a cancelled workflow, a withdrawn version, a moment that has passed": [
        said(call="t1", flow="v1", workflow="w2"),
        said(call="t2", case="case-2"),
        said(call="t3", case="case-3", ends=90, workflow="w3"),
        said(call="t4", case="case-4", workflow="w3"),
        ("advance", {"by": 91}),
        GIVE_UP,
        ("cancel", {"what": "flow", "workflow": "w1", "which": 0}),
        ran(behaviours.accepted),
    ],
    "cancelling in time, too late, and in the air": [
        said(call="t1", tells=ACTORS),
        said(call="t2", case="case-2", after=0),
        ("cancel", {"what": "operation", "workflow": "w1", "which": 0}),
        said(call="t3", case="case-3"),
        ran(behaviours.hangs),
        ("cancel", {"what": "operation", "workflow": "w1", "which": 2}),
        ("run", {"actions": [], "outcome": behaviours.accepted, "during": 61}),
    ],
    "an account that rests holds up its operations only": [
        said(call="t1"),
        ran([behaviours.locked_out, behaviours.rate_limited]),
        said(call="t2", case="case-2"),
        said(call="t3", case="case-3", account="other"),
        ran(behaviours.accepted),
        ran(behaviours.accepted, 30),
        ran(behaviours.accepted, 90),
    ],
    "what was staged in a savepoint that is rolled back is gone": [
        said(call="t1"),
        ("rolled back", {"steps": [said(call="t2", case="case-2"), granted(), GIVE_UP, said(call="t1")]}),
        said(call="t2", case="case-2"),
        ran(behaviours.accepted),
    ],
}


@pytest.mark.parametrize("known", [True, False], ids=["catalog", "no catalog"])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_script_is_the_same_in_memory_as_in_the_database(engine: Engine, tenant: str, script: list[Step], known: bool) -> None:
    compare(engine, tenant, script, CATALOG if known else None)
