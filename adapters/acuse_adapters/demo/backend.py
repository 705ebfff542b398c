"""The demonstration's backend as a process: closes cases, then hears what became of its tickets in an actor of its own."""

import argparse
import sys
import threading

import dramatiq
from dramatiq import Worker
from dramatiq.brokers.redis import RedisBroker
from sqlalchemy import text

from acuse.command.stopping import stopped_by_signals
from acuse.settings import load_settings
from acuse.store.engine import sync_engine
from acuse_adapters.demo.onboarding import close_case, create_tables

__all__ = ["main"]

QUEUE = "onboarding"


def main() -> int:
    """Close `--cases` cases, say so on standard output, then work as the host's own Dramatiq worker until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, required=True)
    cases: int = parser.parse_args().cases
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
        for number in range(1, cases + 1):
            if stop.is_set():
                break
            close_case(engine, number)
        stop.wait()
    worker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
