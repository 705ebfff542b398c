"""The demonstration's backend as a process: closes cases, then hears what became of its tickets in an actor of its own."""

import argparse
import sys
import threading
from collections.abc import Sequence

import dramatiq
from dramatiq import Worker
from dramatiq.brokers.redis import RedisBroker
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from acuse.command.stopping import stopped_by_signals
from acuse.settings import load_settings
from acuse.store.engine import sync_engine
from acuse.store.failure import worth_repeating
from acuse_adapters.demo.onboarding import close_case, create_tables, tenants

__all__ = ["main"]

QUEUE = "onboarding"


def main() -> int:
    """Close `--cases` cases, say so on standard output, then work as the host's own Dramatiq worker until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--tenants", type=int, default=1)
    arguments = parser.parse_args()
    settings = load_settings()
    engine = sync_engine(settings.database_url, name="onboarding")
    create_tables(engine)
    broker: RedisBroker = RedisBroker(url=settings.redis_url, namespace=settings.redis_namespace)  # type: ignore[no-untyped-call]

    @dramatiq.actor(queue_name=QUEUE, actor_name="remember_ticket", broker=broker)
    def remember_ticket(target: str, state: str, result_id: str | None = None, **_rest: object) -> None:
        """Write down what the ledger says, in the host's own table. Told twice, it writes the same."""
        with engine.begin() as connection:
            connection.execute(
                text("update onboarding.case_file set ticket_number = :number, ticket_said = :said where id = :id"),
                {"number": result_id, "said": state, "id": target},
            )

    worker = Worker(broker, queues={QUEUE}, worker_timeout=50, worker_threads=2)
    worker.start()
    stop = threading.Event()
    with stopped_by_signals(stop):
        for number in range(1, arguments.cases + 1):
            _close(engine, number, tenants(arguments.tenants), stop)
        stop.wait()
    worker.stop()
    return 0


def _close(engine: Engine, number: int, owners: Sequence[str], stop: threading.Event) -> None:
    """Close a case, as soon as the database is there. Whether a commit happened whose reply was lost makes no difference."""
    while not stop.is_set():
        try:
            close_case(engine, number, owners[number % len(owners)])
        except SQLAlchemyError as error:
            if not worth_repeating(error):
                raise
            stop.wait(0.2)
        else:
            return


if __name__ == "__main__":
    sys.exit(main())
