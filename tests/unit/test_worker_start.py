"""What a worker does not start with."""

import pytest

from acuse.errors import ConfigurationError
from acuse.settings import Settings
from acuse_adapters.port import Adapter, Registry
from acuse_adapters.process import WorkerProcess
from acuse_adapters.ticketing.adapter import TicketingAdapter
from acuse_adapters.ticketing.settings import TicketSettings


def ticketing(deadline: float) -> TicketingAdapter:
    return TicketingAdapter(TicketSettings(url="https://helpdesk.example", deadline_seconds=deadline))  # type: ignore[arg-type]


def worker(*adapters: Adapter, lease: float = 30) -> WorkerProcess:
    settings = Settings(database_url="postgresql+psycopg://nobody@127.0.0.1:9/none", lease_seconds=lease)
    return WorkerProcess(settings, Registry(adapters))


@pytest.mark.case("R023")
@pytest.mark.invariant(3)
def test_a_deadline_that_does_not_fit_the_lease_is_refused_before_anything_starts() -> None:
    worker(ticketing(25), lease=30)
    with pytest.raises(ConfigurationError, match=r"ticket\.create\.v1: its deadline of 26 s does not fit a lease of 30 s"):
        worker(ticketing(26), lease=30)


@pytest.mark.case("R023")
def test_an_adapter_without_a_deadline_cannot_be_declared() -> None:
    for never in (0, -1, 46):
        with pytest.raises(ValueError, match="deadline"):
            TicketSettings(url="https://helpdesk.example", deadline_seconds=never)  # type: ignore[arg-type]


def test_a_worker_without_an_adapter_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match="ACUSE_TICKET_URL"):
        worker()
