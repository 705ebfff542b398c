"""The settings under which a worker serves a contract: the real adapters, pointed at a simulator."""

from acuse_adapters.faults.ground import KEY_SECONDS
from acuse_adapters.faults.words import Contract
from acuse_adapters.simulators.process import SimulatorProcess

__all__ = ["DEADLINE_SECONDS", "LEASE_SECONDS", "SETTINGS", "queue_of", "settings_for"]

DEADLINE_SECONDS = 2
LEASE_SECONDS = 7

SETTINGS = {
    "ACUSE_LEASE_SECONDS": str(LEASE_SECONDS),
    "ACUSE_LOST_AFTER_SECONDS": "2",
    "ACUSE_RECOVER_SECONDS": "0.2",
    "ACUSE_GRACE_SECONDS": "0.5",
    "ACUSE_WORKER_THREADS": "1",
    "dramatiq_restart_delay": "200",
    "ACUSE_CRM_TOKEN": "t",
    "ACUSE_TICKET_TOKEN": "t",
    **{f"ACUSE_{name}_DEADLINE_SECONDS": str(DEADLINE_SECONDS) for name in ("CRM", "TICKET", "EMAIL")},
    **{f"ACUSE_{name}_MAX_IN_FLIGHT_SECONDS": "1" for name in ("CRM", "TICKET", "EMAIL")},
}
"""For every process of a cell: what is minutes elsewhere is seconds here."""


def queue_of(provider: SimulatorProcess) -> str:
    """Return the queue of new operations of a provider."""
    return f"acuse.{_name(provider)}"


def settings_for(
    contract: Contract, provider: SimulatorProcess, through: int | None, journal: int | None = None
) -> dict[str, str]:
    """Return the settings of the one adapter that serves a contract. through, journal: ports of lines to the provider."""
    if provider.simulator == "email":
        return _mail(contract, through or provider.smtp_port, journal or provider.imap_port)
    settings = {f"ACUSE_{_name(provider).upper()}_URL": f"http://127.0.0.1:{through or provider.http_port}"}
    if contract is Contract.KEY_EXPIRED:
        settings["ACUSE_TICKET_KEY_RETENTION_SECONDS"] = str(KEY_SECONDS)
    return settings


def _name(provider: SimulatorProcess) -> str:
    return "ticket" if provider.simulator == "ticketing" else provider.simulator


def _mail(contract: Contract, smtp: int, imap: int) -> dict[str, str]:
    settings = {
        "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
        "ACUSE_EMAIL_SMTP_PORT": str(smtp),
        "ACUSE_EMAIL_SMTP_STARTTLS": "false",
        "ACUSE_EMAIL_SENDER": "onboarding@example.test",
    }
    if contract is Contract.NONE:
        return settings
    settings |= {
        "ACUSE_EMAIL_IMAP_HOST": "127.0.0.1",
        "ACUSE_EMAIL_IMAP_PORT": str(imap),
        "ACUSE_EMAIL_IMAP_TLS": "false",
        "ACUSE_EMAIL_IMAP_USERNAME": "journal",
        "ACUSE_EMAIL_IMAP_PASSWORD": "journal",
        "ACUSE_EMAIL_IMAP_MAILBOX": "Journal",
    }
    if contract is Contract.LAG_BOUND:
        settings["ACUSE_EMAIL_IMAP_VISIBLE_WITHIN_SECONDS"] = "2"
    return settings
