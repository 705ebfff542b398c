"""What a backend imports: these names, from one place, with nothing but the base dependencies."""

import importlib
import subprocess
import sys
from importlib.metadata import version

import pytest

import acuse
from acuse import errors

SURFACE = {
    *("Action", "ActionCatalog", "Effect", "Event", "Plan", "PlannedEffect", "Routes"),
    *("AsyncOutbox", "Outbox", "Published", "Staged", "Wish"),
    *("AsyncLedger", "Cancellation", "HistoryEntry", "Ledger", "OperationRecord", "Page", "Receipt", "State"),
    *("ApprovalRecord", "ApprovalState", "Approvals", "AsyncApprovals", "Decision", "Requested"),
    *errors.__all__,
    "__version__",
}

# What only the extras bring, and the drivers that a host may or may not have.
ABSENT = ["alembic", "asyncpg", "dramatiq", "greenlet", "httpx", "prometheus_client", "pydantic_settings", "redis", "starlette"]

_WITHOUT = f"""
import sys
for name in {ABSENT}:
    sys.modules[name] = None
import acuse
for name in acuse.__all__:
    getattr(acuse, name)
from acuse import agents
from acuse.store import account, handshake, retention, review
class CloseCase(acuse.Action, name="crm.close_case.v1", target="case"):
    case: str
acuse.Ledger("postgresql://nobody@127.0.0.1:1/none").close()
try:
    acuse.Outbox().stage(None, CloseCase(case="case-1"), workflow="w", call="t")
except TypeError as error:
    assert "psycopg Connection" in str(error)
"""


def test_the_surface_is_exactly_this() -> None:
    assert set(acuse.__all__) == SURFACE
    assert acuse.__all__ == sorted(acuse.__all__)
    assert set(acuse.__all__) <= set(dir(acuse))


def test_every_name_is_there_and_is_public_where_it_comes_from() -> None:
    for name in SURFACE - {"__version__"}:
        value = getattr(acuse, name)
        home = importlib.import_module(value.__module__)
        assert getattr(home, name) is value
        assert name in home.__all__, f"{name} is not public in {home.__name__}"


def test_the_version_is_the_distribution_s() -> None:
    assert acuse.__version__ == version("acuse")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Inbox'"):
        acuse.Inbox  # type: ignore[attr-defined]  # noqa: B018


def test_all_of_it_works_with_the_base_dependencies_alone() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", _WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_a_part_does_not_pay_for_the_others() -> None:
    code = "import sys, acuse.protocol, acuse.errors; assert 'sqlalchemy' not in sys.modules and 'psycopg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
