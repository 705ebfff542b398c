"""`acuse endure`: thousands of effects under faults, kills, wipes and a restart; exits with 1 if a promise was broken."""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine

from acuse.command.logging import configure_logging
from acuse.embedded import EmbeddedError, EmbeddedPair
from acuse.errors import ConfigurationError
from acuse.store.engine import sync_engine
from acuse_adapters.demo.cast import Cast, Scene, say
from acuse_adapters.demo.ending import ended_by_signals
from acuse_adapters.demo.judge import judge
from acuse_adapters.demo.onboarding import tenants
from acuse_adapters.demo.told import told_by
from acuse_adapters.demo.truth import effects
from acuse_adapters.endure.endurance import FAULTS, KEY_RETENTION_SECONDS, Endurance, plans
from acuse_adapters.endure.report import as_json, show

__all__ = ["EndureCommand", "endure"]

EFFECTS_PER_CASE = 3


class EndureCommand:
    """The sub-command `endure`."""

    name = "endure"
    help = "thousands of effects under faults, kills, wipes and a restart; exits with 1 if a promise was broken or memory grows"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--effects", type=int, default=10_000, help="effects that the backend wants (default 10000)")
        parser.add_argument("--tenants", type=int, default=4, help="tenants that share them (default 4)")
        parser.add_argument("--seed", type=int, help="of faults and kills (default: drawn, and printed)")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run, judge, report."""
        if not EFFECTS_PER_CASE <= arguments.effects <= 100_000:
            raise ConfigurationError("--effects: give 3 to 100000")
        if not 1 <= arguments.tenants <= 100:
            raise ConfigurationError("--tenants: give 1 to 100")
        configure_logging("console", "error")
        seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed  # noqa: S311  # dice, not a secret
        cases = -(-arguments.effects // EFFECTS_PER_CASE)
        started = time.monotonic()
        try:
            with (
                ended_by_signals(),
                tempfile.TemporaryDirectory(prefix="acuse-endure-") as folder,
                EmbeddedPair.temporary() as pair,  # its own: servers that go down are no others' business
            ):
                say(f"seed {seed}: faults at {FAULTS:.0%}; the same come again with --seed {seed}")
                scene = Scene(Path(folder), pair.database_url, pair.redis_url, "acuse-endure", cases, seed, arguments.tenants)
                engine = sync_engine(pair.database_url, name="acuse-endure")
                try:
                    endurance = Endurance(pair, scene)
                    with Cast(scene, plans(seed), KEY_RETENTION_SECONDS) as cast:
                        endurance.perform(cast, engine)
                        return _report(endurance, cast, engine, time.monotonic() - started, arguments.json)
                finally:
                    engine.dispose()
        except EmbeddedError as error:
            raise ConfigurationError(str(error)) from error


def _report(endurance: Endurance, cast: Cast, engine: Engine, seconds: float, file: Path | None) -> int:
    told = told_by(engine, tenants(endurance.scene.tenants))
    judgement = judge(cast.closed_cases(engine), effects(cast.simulators), told)
    show(judgement, told, endurance.blows, endurance.memory, seconds, Console())
    if file is not None:
        said = as_json(judgement, told, endurance.blows, endurance.memory, seconds, endurance.scene.seed)
        file.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return 0 if judgement.good and not any(one.flat is False for one in endurance.memory) else 1


endure = EndureCommand()
