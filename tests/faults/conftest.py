"""Crews for tests that break what stands around a worker."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from crew import Crew, own_ledger
from sqlalchemy import text


@pytest.fixture(scope="module")
def ledger_url(servers: tuple[str, str]) -> Iterator[str]:
    """One ledger of this module alone."""
    with own_ledger(servers[0]) as url:
        yield url


@pytest.fixture
def hire(ledger_url: str, redis_url: str, tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    """Makes crews that go home with the test. What others left behind in the ledger is none of their business."""
    crews: list[Crew] = []

    def made(broker: str = redis_url, database: str = ledger_url, **settings: str) -> Crew:
        crew = Crew(tmp_path / f"crew-{len(crews)}", database, broker, f"acuse-test-{uuid4().hex[:12]}", **settings)
        crews.append(crew)
        return crew

    yield made
    for crew in crews:
        with crew.engine.begin() as connection:
            connection.execute(text("delete from acuse.outbox_message"))
        crew.__exit__()
