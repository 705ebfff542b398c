"""`acuse relay`: the relay and the recover loop as a process of its own."""

import argparse

from acuse.command.logging import configure_logging
from acuse.settings import load_settings
from acuse_relay.process import relay_process

__all__ = ["RelayCommand", "relay"]


class RelayCommand:
    """The sub-command `relay`."""

    name = "relay"
    help = "move committed outbox rows to the queues, and recover what nobody works on; run as many as you like"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments, which go before the environment."""
        parser.add_argument("--metrics-port", type=int, default=None, help="serve /metrics on this port (ACUSE_METRICS_PORT)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run until SIGTERM or SIGINT. Returns 0. Raises `ConfigurationError` or `SchemaMismatch`, which say what to do."""
        settings = load_settings(metrics_port=arguments.metrics_port)
        configure_logging(settings.log_format, settings.log_level)
        return relay_process(settings).run()


relay = RelayCommand()
