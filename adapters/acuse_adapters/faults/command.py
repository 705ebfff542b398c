"""`acuse faults`: the fault matrix, on real processes."""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from acuse.command.logging import configure_logging
from acuse.embedded import EmbeddedError
from acuse.errors import ConfigurationError
from acuse_adapters.faults.judge import Result
from acuse_adapters.faults.matrix import AT_ONCE, chosen, run
from acuse_adapters.faults.report import as_json, as_junit
from acuse_adapters.faults.skipped import skipped

__all__ = ["FaultsCommand", "faults"]


class FaultsCommand:
    """The sub-command `faults`."""

    name = "faults"
    help = "strike every boundary of an operation's life by every fault that can bite; exits with 1 if a verdict is wrong"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--seed", type=int, help="of the order and of the providers (default: drawn, and printed)")
        parser.add_argument(
            "--filter",
            metavar="TEXT",
            action="append",
            default=[],
            help="only cells so named, or whose name contains this, or fits it as a pattern with *; may be given again",
        )
        parser.add_argument("--junit", type=Path, metavar="FILE", help="write the result there as JUnit XML")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there as JSON")
        parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help=f"cells at once (default {AT_ONCE})")
        parser.add_argument("--list", action="store_true", help="only say which cells there are, and why others are left out")

    def run(self, arguments: argparse.Namespace) -> int:
        """Strike, judge, report."""
        wanted = chosen(*arguments.filter)
        if not wanted:
            raise ConfigurationError("--filter: no cell is named so; --list shows them all")
        if not 1 <= arguments.at_once <= 32:
            raise ConfigurationError("--at-once: give 1 to 32")
        if arguments.list:
            _list([cell.name for cell in wanted])
            return 0
        configure_logging("console", "error")
        seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed  # noqa: S311  # dice, not a secret
        print(f"seed {seed}: the same order comes again with --seed {seed}; {len(wanted)} cells", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything that was started is ended
        started = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="acuse-faults-") as folder:
                results = run(wanted, Path(folder), seed=seed, tell=_tell, at_once=arguments.at_once)
        except EmbeddedError as error:
            raise ConfigurationError(str(error)) from error
        seconds = time.monotonic() - started
        if arguments.json is not None:
            arguments.json.write_text(
                json.dumps(as_json(results, seconds, seed), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        if arguments.junit is not None:
            arguments.junit.write_text(as_junit(results, seconds), encoding="utf-8")
        wrong = [result for result in results if result.wrong]
        for result in wrong:
            print(f"\n{result.line}\n{result.log}", file=sys.stderr)
        print(f"{len(results)} cells, {len(wrong)} wrong, {len(skipped())} left out with a reason, {seconds:.0f} s")
        return 1 if wrong else 0


def _tell(result: Result) -> None:
    print(result.line, flush=True)


def _list(names: list[str]) -> None:
    for name in names:
        print(name)
    print()
    for one in skipped():
        print(f"left out: {one.boundary} × {one.fault} × {one.contract}: {one.reason}")


faults = FaultsCommand()
