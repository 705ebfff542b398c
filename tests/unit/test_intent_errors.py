"""Errors carry fields, say what to do, and can be copied, pickled and stored."""

import copy
import inspect
import pickle
from datetime import UTC, datetime

import pytest

from acuse import errors
from acuse.errors import AcuseError

EXAMPLES: list[AcuseError] = [
    errors.InvalidField(field="target", reason="must not be empty; give a value"),
    errors.InvalidPayload(path="$.a", reason="no"),
    errors.UnknownAction(action="crm.x\x00\ud800", nearest=["crm.x.v1", "crm.y.v1"]),
    errors.IdentityMissing(action="crm.x.v1"),
    errors.EffectConflict(operation_id="op_1", paths=["$.payload.a"]),
    errors.InDoubt(operation_id="op_1"),
    errors.RetryTransaction(sqlstate="40001"),
    errors.SchemaMismatch(found=None, wanted="0001"),
    errors.NotFound(what="operation", id="op_\x00"),
    errors.VersionConflict(operation_id="op_1", expected=3, found=4, by="ann", at=datetime(2026, 11, 30, tzinfo=UTC)),
    errors.ApprovalError(reason="revoked; ask for a new one", approval_id="apr_1"),
    errors.ConfigurationError("no routes"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_copying_and_pickling_and_can_be_stored(error: AcuseError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert (str(twin), vars(twin)) == (str(error), vars(error))
    assert "\x00" not in str(error)
    str(error).encode("utf-8")


def test_the_drawn_tree_is_the_real_one_and_everything_in_it_is_public() -> None:
    classes = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, AcuseError)}
    assert sorted(errors.__all__) == sorted(kind.__name__ for kind in classes)
    drawn = {}
    parents: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        mark = next((word for word in line.replace("│", " ").split() if word in errors.__all__), None)
        if mark is None or (parents and not ("├" in line or "└" in line)):
            continue
        depth = line.index(mark)
        parents = [parent for parent in parents if parent[0] < depth]
        drawn[mark] = parents[-1][1] if parents else "Exception"
        parents.append((depth, mark))
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in classes}


def test_a_conflict_names_the_operation_and_the_paths() -> None:
    error = errors.EffectConflict(operation_id="op_1", paths=["$.payload.a", "$.target"])
    assert (error.operation_id, error.paths) == ("op_1", ("$.payload.a", "$.target"))
    assert "op_1, whose content differs at $.payload.a, $.target" in str(error)


def test_a_version_conflict_says_who_and_when_if_known() -> None:
    assert "changed by ann at 2026-11-30T00:00:00+00:00 after version 3 was read, it is at 4" in str(EXAMPLES[9])
    assert "op_1 was changed after version 3 was read;" in str(errors.VersionConflict(operation_id="op_1", expected=3))
