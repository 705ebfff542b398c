"""What really goes over the wire: silent providers, doubled messages, and a broker that refuses, with real processes."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from crew import Crew, free_ports, scraped, until
from sqlalchemy import text

from acuse.embedded import EmbeddedValkey
from acuse_adapters.crm.action import LogNote
from acuse_adapters.email.action import SendEmail
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess
from acuse_adapters.ticketing.action import CreateTicket


class SilentProvider:
    """Reads every write to its last byte and never answers it. Reads are answered 503."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.writes: list[bytes] = []
        self.reads = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with suppress(OSError), client, client.makefile("rb") as stream:
            while line := stream.readline():
                length = 0
                while (header := stream.readline()) not in {b"\r\n", b""}:
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = stream.read(length)
                if line.startswith(b"GET"):
                    self.reads += 1
                    client.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                else:
                    self.writes.append(body)


@contextmanager
def silent_provider() -> Iterator[SilentProvider]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        provider = SilentProvider(server)
        threading.Thread(target=provider.serve, daemon=True).start()
        yield provider


@pytest.mark.case("R005")
@pytest.mark.invariant(4)
def test_a_provider_that_reads_and_stays_silent_gets_one_request_and_is_only_asked_afterwards(
    hire: Callable[..., Crew], tenant: str
) -> None:
    with silent_provider() as provider:
        crew = hire(ACUSE_CRM_URL=provider.url, ACUSE_CRM_DEADLINE_SECONDS="0.5")
        crew.relay()
        crew.worker()

        one = crew.stage(LogNote(case="case-1", text="hello"), tenant)

        # Then it is in doubt, and looked up again and again; nothing is sent a second time
        row = crew.becomes(one, "unknown")
        until(lambda: provider.reads >= 2, "two look-ups")
        assert (len(provider.writes), row.attempts) == (1, 1)
        assert crew.row(one).status == "unknown"


@pytest.mark.case("R005")
@pytest.mark.invariant(4)
def test_a_repeat_with_the_same_key_is_one_request_per_attempt_with_the_same_bytes(
    hire: Callable[..., Crew], tenant: str
) -> None:
    with silent_provider() as provider:
        crew = hire(ACUSE_TICKET_URL=provider.url, ACUSE_TICKET_DEADLINE_SECONDS="0.3")
        crew.relay()
        crew.worker()

        one = crew.stage(CreateTicket(reference="case-1", subject="hello"), tenant)

        # When it was sent twice at least, and then the account is paused, so that nothing starts any more
        until(lambda: crew.row(one).attempts >= 2, "a second attempt")
        with crew.engine.begin() as connection:
            connection.execute(text("select acuse.pause_account('ticket', 'default', null, 'alice', 'enough')"))
        row = crew.becomes(one, "unknown")
        assert len(provider.writes) == row.attempts == row.doubts
        assert len(set(provider.writes)) == 1
        with crew.engine.begin() as connection:
            connection.execute(text("select acuse.resume_account('ticket', 'default')"))


@pytest.mark.case("R013")
@pytest.mark.invariant(10)
def test_the_same_message_at_several_workers_at_once_is_one_call(hire: Callable[..., Crew], tenant: str, tmp_path: Path) -> None:
    with SimulatorProcess("crm", tmp_path / "crm") as crm:
        # Given two workers, of two threads each, and a message that the broker delivers four times
        crew = hire(ACUSE_CRM_URL=crm.url)
        ports = free_ports(2)
        for port in ports:
            crew.worker(ACUSE_METRICS_PORT=str(port))
        crm.hold("before_apply")
        one = crew.stage(LogNote(case="case-1", text="hello"), tenant)
        with crew.engine.begin() as connection:
            connection.execute(text("delete from acuse.outbox_message"))

        crew.push(one, "acuse.crm", times=4)

        # Then three of them end quietly while the request of the fourth is still in the air
        crm.wait_held()
        until(lambda: crew.depth("acuse.crm") == 1, "three acknowledgements")
        prevented = 'acuse_duplicates_prevented_total{kind="delivery"}'
        assert sum(scraped(port, prevented) for port in ports) == 3
        crm.release()
        row = crew.becomes(one, "confirmed")
        assert len(crm.requests(f"op_{one.hex}")) == row.attempts == 1
        until(lambda: crew.depth("acuse.crm") == 0, "the last acknowledgement")


Fault_ = Callable[[redis.Redis], Any]
BROKEN: list[tuple[Fault_, Fault_]] = [
    (lambda it: it.replicaof("127.0.0.1", 1), lambda it: it.replicaof("NO", "ONE")),
    (lambda it: it.config_set("maxmemory", 1), lambda it: it.config_set("maxmemory", 0)),
]


@pytest.mark.case("R016")
@pytest.mark.case("R020")
@pytest.mark.parametrize(("break_it", "mend_it"), BROKEN, ids=["read-only", "full"])
def test_a_broker_that_refuses_the_acknowledgement_and_the_next_push_loses_and_doubles_nothing(
    hire: Callable[..., Crew], tenant: str, tmp_path: Path, break_it: Fault_, mend_it: Fault_
) -> None:
    with EmbeddedValkey.temporary(durable=False) as valkey, SimulatorProcess("crm", tmp_path / "crm") as crm:
        crew = hire(broker=valkey.redis_url, ACUSE_CRM_URL=crm.url)
        crew.relay()
        _, worker = crew.worker()

        # Given one operation at the provider, and another that was told to come again in a second
        crm.plan(script=[{"match": "later", "faults": [Fault.THROTTLE]}])
        crm.hold("before_apply", kind="case-now")
        now, later = (crew.stage(LogNote(case=f"case-{when}", text=when), tenant) for when in ("now", "later"))
        crm.wait_held()
        until(lambda: crew.row(later).attempts == 1 and crew.row(later).status == "prepared", "429")

        # When the broker refuses to write, then the one is settled all the same and the other waits in the outbox
        break_it(crew.redis)
        crm.release()
        crew.becomes(now, "confirmed")
        waiting = text("select count(*) from acuse.outbox_message where operation_id = :id")
        with crew.engine.connect() as connection:
            until(lambda: connection.execute(waiting, {"id": later}).scalar_one() == 1, "the other is due")

        # And when it writes again, the other goes, and the one is delivered again and sends nothing
        mend_it(crew.redis)
        row = crew.becomes(later, "confirmed")
        crew.push(now, "acuse.crm")
        third = crew.stage(LogNote(case="case-3", text="third"), tenant)
        crew.becomes(third, "confirmed")
        assert [len(crm.requests(f"op_{one.hex}")) for one in (now, later, third)] == [1, 2, 1]
        assert [len(crm.effects(f"op_{one.hex}")) for one in (now, later, third)] == [1, 1, 1]
        assert row.attempts == 2
        assert worker.exit_code is None


def mail_settings(simulator: SimulatorProcess) -> dict[str, str]:
    return {
        "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
        "ACUSE_EMAIL_SMTP_PORT": str(simulator.smtp_port),
        "ACUSE_EMAIL_SMTP_STARTTLS": "false",
        "ACUSE_EMAIL_SENDER": "onboarding@example.test",
    }


JOURNAL = {
    "ACUSE_EMAIL_IMAP_HOST": "127.0.0.1",
    "ACUSE_EMAIL_IMAP_TLS": "false",
    "ACUSE_EMAIL_IMAP_USERNAME": "journal",
    "ACUSE_EMAIL_IMAP_PASSWORD": "journal",
}


@pytest.mark.case("R002")
@pytest.mark.parametrize("journal", [True, False], ids=["with a journal", "without one"])
def test_a_mail_server_that_takes_the_message_and_stays_silent_has_one_copy(
    hire: Callable[..., Crew], tenant: str, tmp_path: Path, journal: bool
) -> None:
    plan = {"script": [{"faults": [Fault.STALL_APPLIED]}], "stall_seconds": 30}
    with SimulatorProcess("email", tmp_path / "email", plan=plan) as mail:
        looked_up = {**JOURNAL, "ACUSE_EMAIL_IMAP_PORT": str(mail.imap_port)} if journal else {}
        crew = hire(**mail_settings(mail), **looked_up)
        crew.relay()
        crew.worker()

        one = crew.stage(
            SendEmail(reference="case-1", to="owner@example.test", subject="Your case", body="It is closed."), tenant
        )

        if journal:
            # Then the journal's copy with our Message-ID confirms it
            row = crew.becomes(one, "confirmed")
            assert row.result_id
        else:
            # Then it waits for a person, whatever the broker delivers
            until(lambda: crew.row(one).held, "the review")
            crew.push(one, "acuse.email", times=2)
            until(lambda: crew.depth("acuse.email") == 0, "the messages are taken")
            row = crew.row(one)
            assert (row.status, row.doubts) == ("unknown", 1)
            assert "the recipient gets the same email twice" in row.held
        assert row.attempts == 1
        assert len(mail.requests(f"op_{one.hex}")) == len(mail.effects(f"op_{one.hex}")) == 1
