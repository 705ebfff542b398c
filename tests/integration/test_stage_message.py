"""Any Dramatiq message of the host goes through the same outbox."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import dramatiq
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from stage_factory import stage

from acuse import InvalidField, Outbox
from acuse_adapters.crm.action import CloseCase


@pytest.fixture
def outbox(tenant: str) -> Outbox:
    return Outbox(tenant=tenant)


class Message:
    """Shaped like a Dramatiq message."""

    def __init__(self, **kwargs: Any) -> None:
        self.queue_name, self.actor_name, self.message_id = "default", "remember", "m-1"
        self.args, self.options = (1, "two"), {"max_retries": 3}
        self.kwargs = kwargs


def test_a_message_of_the_host_goes_the_same_way(engine: Engine, outbox: Outbox) -> None:
    message: Any = dramatiq.Message(
        queue_name="host", actor_name="remember", args=(1, "two"), kwargs={"big": 2**63, "text": "ä\U0001f600"}, options={"x": 1}
    )
    with engine.connect() as connection:
        outbox.send(connection, message, delay=1500)
        outbox.send(connection, message)
        row, soon = connection.execute(
            text(
                "select queue, message, available_at - now() as wait "
                "from acuse.outbox_message where message->>'id' = :id order by id"
            ),
            {"id": message.message_id},
        )
    assert row.queue == "host"
    assert row.message == {
        "id": message.message_id,
        "actor": "remember",
        "args": [1, "two"],
        "kwargs": {"big": 2**63, "text": "ä\U0001f600"},
        "options": {"x": 1},
    }
    assert timedelta(seconds=1.4) < row.wait < timedelta(seconds=10)
    assert soon.wait < timedelta(seconds=1)


@pytest.mark.parametrize("bad", [datetime.now(UTC), Decimal(1), float("nan"), {1, 2}, b"x", "a\x00", "\ud800", object()])
def test_a_message_that_is_no_json_is_refused_and_its_value_is_not_shown(outbox: Outbox, bad: Any) -> None:
    with pytest.raises(InvalidField) as refused:
        outbox.send(None, Message(deep=[{"bad": bad}]))  # type: ignore[arg-type]
    assert refused.value.field == "message.kwargs"
    assert repr(bad) not in str(refused.value)


@pytest.mark.parametrize("delay", [-1, timedelta(days=400)])
def test_a_delay_has_bounds(outbox: Outbox, delay: int | timedelta) -> None:
    with pytest.raises(InvalidField, match="delay"):
        outbox.send(None, Message(), delay=delay)  # type: ignore[arg-type]


def test_what_is_no_message_is_refused(outbox: Outbox) -> None:
    with pytest.raises(InvalidField, match=r"must be a Dramatiq message, actor.message\(…\), not dict"):
        outbox.send(None, {"actor": "x"})  # type: ignore[arg-type]


def test_a_queue_of_ours_takes_no_message_of_a_host(engine: Engine, outbox: Outbox, tenant: str) -> None:
    message: Any = dramatiq.Message(queue_name="acuse.crm", actor_name="a", args=(), kwargs={}, options={})
    with pytest.raises(InvalidField, match=r"queue_name: begins with 'acuse\.'") as refused:
        outbox.send(None, message)  # type: ignore[arg-type]
    assert refused.value.field == "queue_name"
    with pytest.raises(InvalidField) as refused:
        outbox.stage(None, CloseCase(case="1", resolution="done"), call="c", on_settled="acuse.crm/told")  # type: ignore[arg-type]
    assert refused.value.field == "on_settled"
    # And so says the database, to whoever asks it directly
    body = '{"id": "1", "actor": "a", "args": [], "kwargs": {}, "options": {}}'
    with engine.connect() as connection, pytest.raises(DBAPIError, match="send: queue begins with"):
        connection.execute(text("select acuse.send('acuse.crm', cast(:body as jsonb))"), {"body": body})
    with engine.connect() as connection, pytest.raises(DBAPIError, match="on_settled names a queue"):
        stage(connection, tenant, on_settled="acuse.crm/told")
    row = text(
        """insert into acuse.outbox_message (queue, message, available_at)
           values ('acuse.crm', cast(:body as jsonb), now())"""
    )
    with engine.connect() as connection, pytest.raises(DBAPIError, match="hosts_have_queues_of_their_own"):
        connection.execute(row, {"body": body})


def test_a_message_uses_the_share_of_its_tenant(engine: Engine, outbox: Outbox, tenant: str) -> None:
    with engine.connect() as connection:
        outbox.send(connection, Message())
        outbox.send(connection, Message(), tenant=f"{tenant}-other")
        shares = connection.execute(text("select tenant from acuse.outbox_message where message->>'id' = 'm-1' order by id"))
        assert list(shares.scalars()) == [tenant, f"{tenant}-other"]
