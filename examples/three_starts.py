"""An agent's run that is killed between an effect and its record, and started again.

    python examples/three_starts.py --state DIR --crash   # makes the ticket, then dies before anything is written down
    python examples/three_starts.py --state DIR           # finds the ticket's receipt at the provider, goes on, sends the email
    python examples/three_starts.py --state DIR           # does nothing: everything has a receipt

The agent's decision (two tool calls) was stored before any tool ran, so it is not asked again: here it is a constant. PostgreSQL
and Valkey are the embedded pair, the providers are simulators; all of them keep what they know in DIR from one start to the next.
"""

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import Engine

from acuse import Action, Ledger, OperationRecord, Outbox
from acuse.command.logging import configure_logging
from acuse.embedded import EmbeddedPair
from acuse.settings import load_settings
from acuse.store.engine import sync_engine
from acuse_adapters.email.action import SendEmail
from acuse_adapters.engine import Moment
from acuse_adapters.port import Registry
from acuse_adapters.process import WorkerProcess
from acuse_adapters.simulators.process import SimulatorProcess
from acuse_adapters.ticketing.action import CreateTicket
from acuse_migrations import upgrade
from acuse_relay.process import relay_process

RUN = "ticket-77"
STORED_CALLS: tuple[tuple[str, Action], ...] = (
    ("toolu_c1", CreateTicket(reference=RUN, subject="The login fails", requester="user-7")),
    ("toolu_c2", SendEmail(reference=RUN, to="dana@example.org", subject="We are on it", body="A ticket is open.")),
)


def stage_run(engine: Engine) -> list[str]:
    """Stage every stored call; those that are there already come back as they are."""
    outbox, staged = Outbox(), []
    with engine.begin() as connection:
        for call, wish in STORED_CALLS:
            # The email waits for the ticket: its operation is released when the ticket is confirmed.
            operation = outbox.stage(connection, wish, workflow=RUN, call=call, after=[one.operation_id for one in staged])
            staged.append(operation)
    return [one.operation_id for one in staged]


async def die_with_the_answer_in_hand(moment: Moment, _what: object) -> None:
    """The provider has made the ticket and said so; nothing has been written down."""
    if moment is Moment.ANSWERED:
        print("killed (SIGKILL) with the provider's answer in hand, before it was saved", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def everything(state: Path, *, crash: bool) -> Iterator[Engine]:
    """Bring up servers, providers, relay and worker; take them down again in order."""
    with ExitStack() as stack:
        pair = stack.enter_context(EmbeddedPair(state / "pair"))
        helpdesk = stack.enter_context(SimulatorProcess("ticketing", state / "providers"))
        mail = stack.enter_context(SimulatorProcess("email", state / "providers"))
        os.environ |= {
            "ACUSE_DATABASE_URL": pair.database_url,
            "ACUSE_REDIS_URL": pair.redis_url,
            "ACUSE_LEASE_SECONDS": "8",
            "ACUSE_RECOVER_SECONDS": "0.2",
            "ACUSE_LOST_AFTER_SECONDS": "2",
            "ACUSE_TICKET_URL": helpdesk.url,
            "ACUSE_TICKET_DEADLINE_SECONDS": "2",
            "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
            "ACUSE_EMAIL_SMTP_PORT": str(mail.smtp_port),
            "ACUSE_EMAIL_SMTP_STARTTLS": "false",
            "ACUSE_EMAIL_SENDER": "helpdesk@example.org",
            "ACUSE_EMAIL_DEADLINE_SECONDS": "3",
        }
        engine = sync_engine(pair.database_url)
        stack.callback(engine.dispose)
        with engine.begin() as connection:
            upgrade(connection)
        settings = load_settings()
        registry = Registry.from_entry_points(["ticket", "email"])
        worker = (
            WorkerProcess(settings, registry, moments=die_with_the_answer_in_hand) if crash else WorkerProcess(settings, registry)
        )
        for process in (relay_process(settings), worker):
            thread = threading.Thread(target=process.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(process.stop)
        yield engine
        entries = len(helpdesk.effects()) + len(mail.effects())
        print(
            f"entries at the providers: {entries}, one for each key" if entries == 2 else f"entries at the providers: {entries}"
        )


def tell(record: OperationRecord, was_settled: bool) -> str:
    """Say in one line what this start did for an operation."""
    if was_settled:
        return f"{record.action}: nothing to do, the receipt {record.result_id} is on record"
    found = "receipt found at the provider" if record.outcome_code == "found" else "effect applied"
    return f"{record.action}: {found}, {record.result_id}, after {record.attempts} attempt(s)"


def main() -> int:
    """One start of the run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True, help="folder that is kept from one start to the next")
    parser.add_argument("--crash", action="store_true", help="die with the first answer in hand")
    arguments = parser.parse_args()
    configure_logging("console", "error")
    with everything(arguments.state, crash=arguments.crash) as engine:
        ledger = Ledger(engine)
        operations = stage_run(engine)
        settled_before = {one for one in operations if ledger.get(one).state.final}
        for operation in operations:
            print(tell(ledger.wait(operation, timeout=60), operation in settled_before), flush=True)
    print("the run is complete")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
