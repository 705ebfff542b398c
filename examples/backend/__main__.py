"""Everything that the backend needs, and the backend, by one command.

    python examples/backend [--state DIR] [--port 8000]

PostgreSQL and Valkey are the embedded pair; the CRM and the mail server are simulators, which keep the truth of what happened.
All of them keep what they know in DIR. Kill it as you like (`kill -9`) and start it again: what was asked for is carried on, and
nothing happens twice. The backend's process and that of relay and worker are started again if they are killed alone.
"""

import argparse
import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from acuse.command.fleet import Fleet
from acuse.command.logging import configure_logging
from acuse.command.stopping import stopped_by_signals
from acuse.embedded import EmbeddedPair
from acuse_adapters.simulators.process import SimulatorProcess

ROOT = Path(__file__).resolve().parents[2]
TRY = """
curl -X PUT  {url}/cases/case-1 --json '{{"owner": "dana@example.org"}}'
curl -X POST {url}/runs --json '{{"case": "case-1"}}'              # the agent closes the case, and would send an email
curl         {url}/approvals                                   # which a person has to approve
curl -X POST {url}/approvals/apr_... -H 'X-Person: ann' --json '{{"approve": true}}'
curl         {url}/runs/close-case-1
curl         {url}/cases/case-1
what really happened:  curl {crm}/_sim/store  and  curl {mail}/_sim/store
"""


def main() -> None:
    """Start everything, say what to try, and keep it up until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--state", type=Path, default=Path("backend-state"), help="folder that is kept from one start to the next"
    )
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    configure_logging("console", "warning")
    state, url, stop = arguments.state.resolve(), f"http://127.0.0.1:{arguments.port}", threading.Event()
    with stopped_by_signals(stop), ExitStack() as stack:
        pair = stack.enter_context(EmbeddedPair(state / "pair"))
        crm = stack.enter_context(SimulatorProcess("crm", state / "providers"))
        mail = stack.enter_context(SimulatorProcess("email", state / "providers"))
        fleet = stack.enter_context(Fleet(state / "processes", environment(pair, crm, mail), alone=True))
        fleet.finish("migrate", [sys.executable, "-m", "acuse", "migrate"], 60)
        processes = {
            "acuse": [sys.executable, "-m", "acuse", "run"],
            "backend": [sys.executable, "-m", "examples.backend.serve", "--port", str(arguments.port)],
        }
        for name, command in processes.items():
            fleet.start(name, command)
        print(
            f"logs are in {fleet.folder}; Ctrl-C ends it, so does kill -9; try:", TRY.format(url=url, crm=crm.url, mail=mail.url)
        )
        sys.stdout.flush()
        while not stop.wait(0.5):
            for name in fleet.dead():
                print(f"{name} has ended; it is started again (why, says {fleet.folder / name}.log)", flush=True)
                fleet.start(name, processes[name])


def environment(pair: EmbeddedPair, crm: SimulatorProcess, mail: SimulatorProcess) -> dict[str, str]:
    """Where everything is, and patience that fits providers on the same machine."""
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "ACUSE_DATABASE_URL": pair.database_url,
        "ACUSE_REDIS_URL": pair.redis_url,
        "ACUSE_LEASE_SECONDS": "8",
        "ACUSE_RECOVER_SECONDS": "0.3",
        "ACUSE_LOST_AFTER_SECONDS": "3",
        "ACUSE_CRM_URL": crm.url,
        "ACUSE_CRM_TOKEN": "simulated",
        "ACUSE_CRM_DEADLINE_SECONDS": "3",
        "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
        "ACUSE_EMAIL_SMTP_PORT": str(mail.smtp_port),
        "ACUSE_EMAIL_SMTP_STARTTLS": "false",
        "ACUSE_EMAIL_SENDER": "onboarding@example.test",
        "ACUSE_EMAIL_DEADLINE_SECONDS": "3",
        # A mailbox that gets a copy of everything: an email that may have left is looked for there.
        "ACUSE_EMAIL_IMAP_HOST": "127.0.0.1",
        "ACUSE_EMAIL_IMAP_PORT": str(mail.imap_port),
        "ACUSE_EMAIL_IMAP_USERNAME": "journal",
        "ACUSE_EMAIL_IMAP_PASSWORD": "journal",
        "ACUSE_EMAIL_IMAP_TLS": "false",
    }


if __name__ == "__main__":
    main()
