"""`acuse worker`: carries operations out."""

import argparse

from acuse.command.logging import configure_logging
from acuse.settings import load_settings
from acuse_adapters.process import worker_process

__all__ = ["WorkerCommand", "worker"]


class WorkerCommand:
    """The sub-command `worker`."""

    name = "worker"
    help = "carry operations out: a Dramatiq worker for the configured adapters"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "--provider", action="append", default=[], metavar="NAME", help="serve this provider only; repeatable"
        )
        parser.add_argument("--threads", type=int, help="messages handled at once (ACUSE_WORKER_THREADS)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Work until SIGTERM."""
        settings = load_settings(worker_threads=arguments.threads)
        configure_logging(settings.log_format, settings.log_level)
        return worker_process(settings, arguments.provider).run()


worker = WorkerCommand()
