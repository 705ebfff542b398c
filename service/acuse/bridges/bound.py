"""An outbox whose connection is given already, as a framework hands it to a request."""

from functools import partial

from acuse.outbox import AsyncOutbox, Outbox
from acuse.store.caller import AsyncCaller, Caller

__all__ = ["AsyncBound", "Bound"]


class Bound:
    """The methods of `Outbox` without their first argument. `tenant`, unless a call names another; None: the outbox's own."""

    def __init__(self, outbox: Outbox, session: Caller, tenant: str | None = None) -> None:
        self.publish = partial(outbox.publish, session, tenant=tenant)
        self.stage = partial(outbox.stage, session, tenant=tenant)
        self.stage_many = partial(outbox.stage_many, session, tenant=tenant)
        self.send = partial(outbox.send, session, tenant=tenant)


class AsyncBound:
    """The methods of `AsyncOutbox` without their first argument, awaited. See `Bound`."""

    def __init__(self, outbox: AsyncOutbox, session: AsyncCaller, tenant: str | None = None) -> None:
        self.publish = partial(outbox.publish, session, tenant=tenant)
        self.stage = partial(outbox.stage, session, tenant=tenant)
        self.stage_many = partial(outbox.stage_many, session, tenant=tenant)
        self.send = partial(outbox.send, session, tenant=tenant)
