"""The machine's time: it passes by moving every row of the machine into the past."""

import time
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Engine, text

from stateful.contracts import TICK

__all__ = ["Clock"]

# What the guards refuse is meant here: no row changes in itself, all of them get older together.
_UNGUARDED = text("select set_config('session_replication_role', 'replica', true)")

_AGE = text(
    """
    with ours as (select id from acuse.operation where tenant = any(:tenants)),
    operations as (
      update acuse.operation set created_at = created_at - :step, updated_at = updated_at - :step, not_after = not_after - :step,
             first_sent_at = first_sent_at - :step, retry_until = retry_until - :step, handed_at = handed_at - :step,
             risk_accepted_at = risk_accepted_at - :step, claim_until = claim_until - :step, due_at = due_at - :step,
             evidence_at = evidence_at - :step, settled_at = settled_at - :step where tenant = any(:tenants)),
    attempts as (
      update acuse.attempt set dispatched_at = dispatched_at - :step, settled_at = settled_at - :step
       where operation_id in (select id from ours)),
    findings as (
      update acuse.evidence set started_at = started_at - :step, recorded_at = recorded_at - :step
       where operation_id in (select id from ours)),
    approvals as (
      update acuse.approval set requested_at = requested_at - :step, decided_at = decided_at - :step,
             expires_at = expires_at - :step, revoked_at = revoked_at - :step
       where tenant = any(:tenants)),
    accounts as (
      update acuse.account set paused_at = paused_at - :step, paused_until = paused_until - :step where account = any(:tenants))
    update acuse.outbox_message set available_at = available_at - :step where operation_id in (select id from ours)
    """
)

_END = text("delete from acuse.operation where tenant = any(:tenants)")


class Clock:
    """Seconds since the machine started, as the machine's rows and its provider see them. `tenants` name its accounts, too."""

    def __init__(self, engine: Engine, tenants: Sequence[str]) -> None:
        self._engine = engine
        self._tenants = list(tenants)
        self._passed = 0.0
        self._since = time.monotonic()

    @property
    def now(self) -> float:
        """Now."""
        return self._passed + time.monotonic() - self._since

    def advance(self, ticks: int) -> None:
        """Let ticks pass; what the steps since the last ones took is a part of them, so that a slow machine changes nothing."""
        took = time.monotonic() - self._since
        step = max(ticks * TICK - timedelta(seconds=took), timedelta(0))
        with self._engine.begin() as connection:
            connection.execute(_UNGUARDED)
            connection.execute(_AGE, {"tenants": self._tenants, "step": step})
        self._passed += took + step.total_seconds()
        self._since += took

    def end(self) -> None:
        """Take the machine's operations away, so that the loops of the next machine do not meet them."""
        with self._engine.begin() as connection:
            connection.execute(_UNGUARDED)
            connection.execute(_END, {"tenants": self._tenants})
