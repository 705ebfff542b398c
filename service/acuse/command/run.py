"""`acuse run`: relay, recover loop and worker in one process, for small deployments."""

import argparse
import threading
from importlib.metadata import entry_points
from typing import Protocol

import structlog

from acuse.command.logging import configure_logging
from acuse.command.stopping import stopped_by_signals
from acuse.errors import AcuseError, ConfigurationError
from acuse.settings import load_settings

__all__ = ["ENTRY_POINTS", "Process", "RunCommand", "run"]

ENTRY_POINTS = "acuse.processes"

_log = structlog.get_logger(__name__)


class Process(Protocol):
    """What an entry point of the group `acuse.processes` returns for settings."""

    def run(self) -> int:
        """Work until stopped. Returns the exit code."""

    def stop(self) -> None:
        """Ask `run` to return."""


class RunCommand:
    """The sub-command `run`."""

    name = "run"
    help = "relay, recover loop and worker in one process"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """It takes no arguments of its own."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run every process in a thread until SIGTERM, SIGINT, or until one of them ends."""
        settings = load_settings()
        if settings.metrics_port:
            raise ConfigurationError(
                "ACUSE_METRICS_PORT: `acuse run` holds two processes in one; run relay and worker apart to scrape"
            )
        configure_logging(settings.log_format, settings.log_level)
        ended = threading.Event()
        made: list[Process] = [point.load()(settings) for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name)]
        codes: list[int] = []
        mistakes: list[AcuseError] = []

        def work(process: Process) -> None:
            try:
                codes.append(process.run())
            except AcuseError as error:
                mistakes.append(error)
            except Exception:  # noqa: BLE001  # the edge of a thread: said, counted, and the others are stopped
                _log.exception("process_failed")
                codes.append(1)
            finally:
                ended.set()

        threads = [threading.Thread(target=work, args=(process,), name=type(process).__name__) for process in made]
        for thread in threads:
            thread.start()
        with stopped_by_signals(ended):
            ended.wait()
        for process in made:
            process.stop()
        for thread in threads:
            thread.join()
        if mistakes:
            raise mistakes[0]  # it says what to do
        return max(codes, default=0)


run = RunCommand()
