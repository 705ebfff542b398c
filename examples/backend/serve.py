"""The backend as a process: its endpoints, its actor and its agent's runs. `ACUSE_…` say where the servers are."""

import argparse
import logging

import dramatiq
import uvicorn
from dramatiq.brokers.redis import RedisBroker
from sqlalchemy.orm import sessionmaker

from acuse import Approvals, Outbox
from acuse.settings import load_settings
from acuse.store.engine import sync_engine
from examples.backend import receipts
from examples.backend.app import make_app
from examples.backend.model import choose_model
from examples.backend.runs import Runs
from examples.backend.tables import Base

__all__ = ["main"]


def main() -> None:
    """Serve until it is ended, in whatever way: nothing has to be put in order for that."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    settings = load_settings()
    engine, approvals = sync_engine(settings.database_url, name="backend"), Approvals()
    sessions = sessionmaker(engine)
    Base.metadata.create_all(engine)
    broker = RedisBroker(url=settings.redis_url, namespace=settings.redis_namespace)  # type: ignore[no-untyped-call]
    receipts.declare(broker, sessions)
    dramatiq.Worker(broker, queues={receipts.QUEUE}, worker_threads=2, worker_timeout=50).start()
    Runs(engine, choose_model(), approvals).start()
    uvicorn.run(make_app(sessions, Outbox(), approvals), host="127.0.0.1", port=arguments.port, log_level="info")


if __name__ == "__main__":
    main()
