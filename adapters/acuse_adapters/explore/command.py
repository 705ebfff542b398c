"""`acuse explore`: random schedules of everybody who works on a ledger, on a real PostgreSQL."""

import argparse
import json
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acuse.embedded import EmbeddedError, EmbeddedPair
from acuse.errors import ConfigurationError
from acuse_adapters.explore.explorer import explore, ledger_on
from acuse_adapters.explore.report import as_json, told
from acuse_adapters.explore.schedule import Result

__all__ = ["ExploreCommand", "explore_command"]

SCHEDULES = 1000
TELL_EVERY = 100


class ExploreCommand:
    """The sub-command `explore`."""

    name = "explore"
    help = "step everybody who works on a ledger through random schedules; exits with 1 if one breaks a promise"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--schedules", type=int, default=SCHEDULES, metavar="N", help=f"how many (default {SCHEDULES})")
        parser.add_argument(
            "--seed", type=int, help="of the first; each next one has the next seed (default: drawn, and printed)"
        )
        parser.add_argument("--replay", type=int, metavar="SEED", help="only the schedule of this seed, with its whole story")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
        parser.add_argument(
            "--database-url",
            metavar="URL",
            help="a server on which databases may be made, as its superuser (default: an embedded one)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Run, shorten, report."""
        if arguments.schedules < 1:
            raise ConfigurationError("--schedules: give 1 or more")
        seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed  # noqa: S311  # dice, not a secret
        replay, schedules = arguments.replay is not None, arguments.schedules
        if replay:
            seed, schedules = arguments.replay, 1
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything that was started is ended
        print(f"seed {seed}: the same schedules come again with --seed {seed}", file=sys.stderr, flush=True)

        def tell(number: int, result: Result) -> None:
            if result.wrong or replay:
                print(told(result), flush=True)
            elif number % TELL_EVERY == 0:
                print(f"{number} schedules", file=sys.stderr, flush=True)

        try:
            with _server(arguments.database_url) as server, ledger_on(server) as url:
                found = explore(url, seed, schedules, tell)
        except EmbeddedError as error:
            raise ConfigurationError(str(error)) from error
        if arguments.json is not None:
            result = as_json(seed, found.schedules, found.steps, found.seconds, found.violations, found.digest)
            arguments.json.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{found.schedules} schedules, {found.steps} steps, {found.seconds:.0f} s, {len(found.violations)} violations")
        return 1 if found.violations else 0


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with EmbeddedPair.temporary(durable=False) as pair:
        yield pair.database_url


explore_command = ExploreCommand()
