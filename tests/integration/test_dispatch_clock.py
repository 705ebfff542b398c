"""What dispatch judges by time, it judges by the database's clock, read after it has waited for the locks."""

import hashlib
import json

import pytest
from racing import Racer, until
from sqlalchemy import Engine, text
from stage_factory import claim, dispatch, stage, stage_committed, state_of

LOCK = text("select 1 from acuse.operation where id = :id for no key update")


def wait_until(engine: Engine, condition: str, **values: object) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as observer:
        until(lambda: observer.execute(text(f"select {condition}"), values).scalar_one(), condition)


@pytest.mark.invariant(3)
@pytest.mark.invariant(12)
def test_a_claim_that_grew_too_short_while_dispatch_waited_lets_nothing_leave(engine: Engine, tenant: str) -> None:
    # Given a claim that outlasts the deadline of one second when the worker asks
    (operation,) = stage_committed(engine, tenant)
    with engine.begin() as connection:
        fence = claim(connection, [operation], lease="1.5 s")[operation]
    holder = Racer(engine, lambda connection: connection.execute(LOCK, {"id": operation}))
    holder.start().result()
    # When dispatch waits for the row until the rest of the claim is shorter than the deadline
    worker = Racer(engine, lambda connection: dispatch(connection, operation, fence)).start_blocked()
    wait_until(engine, "claim_until - interval '1 s' < clock_timestamp() from acuse.operation where id = :id", id=operation)
    holder.commit()
    # Then it is judged by the clock of now
    assert worker.result() == "claim_too_short"
    worker.commit()
    assert state_of(engine, operation).status == "prepared"


@pytest.mark.invariant(8)
@pytest.mark.invariant(12)
def test_an_approval_that_expired_while_dispatch_waited_lets_nothing_leave(engine: Engine, tenant: str) -> None:
    # Given an approval that has not expired when the worker asks
    said = json.dumps({"action": "crm.close_case.v1", "payload": {}, "target": "case-1"}, separators=(",", ":"))
    grant = text(
        """select acuse.grant_approval(:tenant, 'crm.close_case.v1', 'case-1', :digest, 'ann', null,
                                       clock_timestamp() + interval '1 s', null)"""
    )
    with engine.begin() as connection:
        approval = connection.execute(grant, {"tenant": tenant, "digest": hashlib.sha256(said.encode()).digest()}).scalar_one()
        operation = stage(connection, tenant, target="case-1", approval=str(approval))
    with engine.begin() as connection:
        fence = claim(connection, [operation])[operation]
    holder = Racer(engine, lambda connection: connection.execute(LOCK, {"id": operation}))
    holder.start().result()
    # When dispatch waits for the row past its expiry
    worker = Racer(engine, lambda connection: dispatch(connection, operation, fence)).start_blocked()
    wait_until(engine, "expires_at < clock_timestamp() from acuse.approval where id = :id", id=approval)
    holder.commit()
    # Then nothing leaves
    assert worker.result() == "approval_expired"
    worker.commit()
    assert state_of(engine, operation).outcome_code == "approval_gone"
