"""The whole machine."""

from stateful.rest import Rest
from stateful.staging import Staging

__all__ = ["LedgerMachine"]


class LedgerMachine(Staging, Rest):
    """Hosts, workers, brokers, people, providers and time, against one ledger."""
