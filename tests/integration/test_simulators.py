"""The simulated providers as real processes, met by real clients: every endpoint, every fault, kills and restarts."""

from __future__ import annotations

import contextlib
import email.policy
import imaplib
import itertools
import json
import os
import signal
import smtplib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest

from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess

DEADLINE = 10.0
PATIENCE = 0.3
"""Seconds after which a client in these tests gives up on an answer."""

_numbers = itertools.count(1)

APPLIED = {
    Fault.DROP_REPLY,
    Fault.APPLY_LATE,
    Fault.STALL_APPLIED,
    Fault.ERROR_AFTER_APPLY,
    Fault.HALF_ANSWER,
    Fault.RESET_AT_QUIT,
    Fault.REFUSE_REPEAT,
    Fault.FORGET_KEY,
}
HTTP_ANSWER: dict[Fault, int | type[Exception]] = {
    Fault.DROP_REPLY: httpx.RemoteProtocolError,
    Fault.APPLY_LATE: httpx.RemoteProtocolError,
    Fault.STALL: httpx.ReadTimeout,
    Fault.STALL_APPLIED: httpx.ReadTimeout,
    Fault.ERROR_AFTER_APPLY: 500,
    Fault.HALF_ANSWER: httpx.RemoteProtocolError,
    Fault.RESET_AT_QUIT: 200,
    Fault.REFUSE_REPEAT: httpx.RemoteProtocolError,
    Fault.FORGET_KEY: 200,
    Fault.UNAVAILABLE: 503,
    Fault.THROTTLE: 429,
    Fault.UNAUTHORIZED: 401,
    Fault.REFUSE: 422,
    Fault.REFUSE_AT_DOT: 422,
    Fault.DROP_BEFORE: httpx.ReadError,
    Fault.LOCKED: 423,
}
SMTP_ANSWER: dict[Fault, int | str] = {
    Fault.DROP_REPLY: "unexpectedly closed$",
    Fault.APPLY_LATE: "unexpectedly closed$",
    Fault.STALL: "timed out",
    Fault.STALL_APPLIED: "timed out",
    Fault.ERROR_AFTER_APPLY: 451,
    Fault.HALF_ANSWER: 25,
    Fault.RESET_AT_QUIT: 250,
    Fault.REFUSE_REPEAT: "unexpectedly closed$",
    Fault.FORGET_KEY: 250,
    Fault.UNAVAILABLE: 421,
    Fault.THROTTLE: 451,
    Fault.UNAUTHORIZED: 530,
    Fault.REFUSE: 550,
    Fault.REFUSE_AT_DOT: 554,
    Fault.DROP_BEFORE: "reset by peer|unexpectedly closed$",
    Fault.LOCKED: 450,
}


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SimulatorProcess]]:
    started = {
        "crm": SimulatorProcess("crm", tmp_path_factory.mktemp("crm")),
        "ticketing": SimulatorProcess("ticketing", tmp_path_factory.mktemp("ticketing")),
        "email": SimulatorProcess("email", tmp_path_factory.mktemp("email")),
    }
    with contextlib.ExitStack() as stack:
        for process in started.values():
            stack.enter_context(process)
        yield started
    # whatever the clients did to them, they never stumbled themselves
    assert [(process.state / f"{name}.log").read_text() for name, process in started.items()] == ["", "", ""]


def healthy(process: SimulatorProcess) -> SimulatorProcess:
    process.plan()
    process.release(disarm=True)
    return process


@pytest.fixture
def crm(processes: dict[str, SimulatorProcess]) -> SimulatorProcess:
    return healthy(processes["crm"])


@pytest.fixture
def ticketing(processes: dict[str, SimulatorProcess]) -> SimulatorProcess:
    return healthy(processes["ticketing"])


@pytest.fixture
def mail(processes: dict[str, SimulatorProcess]) -> SimulatorProcess:
    return healthy(processes["email"])


@pytest.fixture
def marker() -> str:
    return f"op_{next(_numbers):032x}"


def call(process: SimulatorProcess, method: str, path: str, **options: Any) -> httpx.Response:
    headers = {"Authorization": "Bearer anything", **options.pop("headers", {})}
    return httpx.request(method, process.url + path, headers=headers, timeout=PATIENCE, verify=False, **options)


def eventually(fact: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE
    while not (value := fact()):
        assert time.monotonic() < end, "did not become true in time"
        time.sleep(0.01)
    return value


def close_case(crm: SimulatorProcess, marker: str, case: str | None = None, **headers: str) -> httpx.Response:
    body = {"status": "closed", "resolution": "done", "operation_id": marker}
    return call(crm, "PATCH", f"/v1/main/cases/{case or marker}", json=body, headers=headers)


def make_ticket(ticketing: SimulatorProcess, marker: str, subject: str = "Welcome", key: str | None = "same") -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": marker if key == "same" else key}
    body = {"subject": subject, "description": "…", "requester": "ada", "external_id": marker}
    return call(ticketing, "POST", "/api/main/tickets", json=body, headers=headers)


# --- CRM ---


def test_a_case_springs_into_existence_and_keeps_the_marker_of_its_change(crm: SimulatorProcess, marker: str) -> None:
    fresh = call(crm, "GET", f"/v1/main/cases/{marker}")
    assert fresh.json() == {"id": marker, "status": "open", "resolution": None, "version": 1, "operation_id": None}
    assert fresh.headers["etag"] == '"1"'
    closed = close_case(crm, marker)
    assert closed.status_code == 200
    assert closed.json() == {"id": marker, "status": "closed", "resolution": "done", "version": 2, "operation_id": marker}
    assert closed.headers["etag"] == '"2"'
    crm.change_case("main", marker, status="open")
    assert call(crm, "GET", f"/v1/main/cases/{marker}").json()["version"] == 3
    [change] = call(crm, "GET", f"/v1/main/cases/{marker}/changes", params={"operation_id": marker}).json()["changes"]
    assert (change["version"], change["fields"]) == (2, {"status": "closed", "resolution": "done"})
    [effect] = crm.effects(marker)
    assert (effect["kind"], effect["account"], effect["target"]) == ("case_closed", "main", marker)


def test_a_version_that_is_no_longer_current_writes_nothing(crm: SimulatorProcess, marker: str) -> None:
    assert close_case(crm, marker, **{"If-Match": '"7"'}).status_code == 412
    assert crm.effects(marker) == []
    assert close_case(crm, marker, **{"If-Match": '"1"'}).status_code == 200


def test_a_second_patch_with_the_same_marker_counts_as_a_double(crm: SimulatorProcess, marker: str) -> None:
    close_case(crm, marker)
    close_case(crm, marker)
    assert len(crm.effects(marker)) == 2
    assert [request["applied"] for request in crm.requests(marker)] == [True, True]


def test_a_note_is_upserted_by_its_external_id(crm: SimulatorProcess, marker: str) -> None:
    path = f"/v1/main/cases/c/notes/{marker}"
    assert call(crm, "GET", path).status_code == 404
    first, again, other = (call(crm, "PUT", path, json={"text": text}) for text in ("hi", "hi", "ho"))
    assert (first.status_code, first.json()["new"]) == (201, True)
    assert (again.status_code, again.json()) == (200, {"note": first.json()["note"], "new": False})
    assert (other.json()["note"]["version"], other.json()["new"]) == (2, False)
    assert call(crm, "GET", path).json() == {"note": other.json()["note"]}
    assert [effect["kind"] for effect in crm.effects(marker)] == ["note", "note"]


def test_the_crm_asks_for_a_token_and_does_not_know_missing_cases(crm: SimulatorProcess) -> None:
    assert httpx.get(crm.url + "/v1/main/cases/a").status_code == 401
    assert call(crm, "GET", "/v1/main/cases/missing-1").status_code == 404
    assert call(crm, "PUT", "/v1/main/cases/missing-1/notes/n", json={"text": "x"}).status_code == 404
    assert call(crm, "PATCH", "/v1/main/cases/a", json={}).status_code == 422
    assert call(crm, "PATCH", "/v1/main/cases/a", content=b"{").status_code == 400


# --- Ticketing ---


def test_a_key_replays_its_success_until_it_expires(ticketing: SimulatorProcess, marker: str) -> None:
    first, again = make_ticket(ticketing, marker), make_ticket(ticketing, marker)
    assert (first.status_code, first.headers["x-idempotency-lookup"]) == (201, "miss")
    assert (again.json(), again.headers["x-idempotency-lookup"]) == (first.json(), "hit")
    other = make_ticket(ticketing, marker, subject="Changed")
    assert (other.status_code, other.json()["error"]) == (400, "IdempotentRequestError")
    assert len(ticketing.effects(marker)) == 1
    ticketing.advance(7201)
    assert make_ticket(ticketing, marker).headers["x-idempotency-lookup"] == "miss"
    assert len(ticketing.effects(marker)) == 2


def test_without_a_key_each_post_makes_a_ticket_and_a_blank_subject_none(ticketing: SimulatorProcess, marker: str) -> None:
    answers = [make_ticket(ticketing, marker, key=None) for _ in range(2)]
    assert answers[0].json() != answers[1].json()
    assert "x-idempotency-lookup" not in answers[0].headers
    assert make_ticket(ticketing, marker, subject=" ").status_code == 422
    assert make_ticket(ticketing, marker).headers["x-idempotency-lookup"] == "miss"  # a refusal is not stored


def test_the_search_lags_and_the_id_does_not(ticketing: SimulatorProcess, marker: str) -> None:
    ticketing.plan(search_lag_seconds=600)
    ticket = make_ticket(ticketing, marker).json()["ticket"]

    def search() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = call(ticketing, "GET", "/api/main/tickets", params={"external_id": marker}).json()[
            "tickets"
        ]
        return found

    assert search() == []
    assert call(ticketing, "GET", f"/api/main/tickets/{ticket['id']}").json() == {"ticket": ticket}
    ticketing.advance(601)
    assert search() == [ticket]
    assert call(ticketing, "GET", "/api/other/tickets", params={"external_id": marker}).json() == {"tickets": []}


def test_comments_have_keys_and_a_lagging_search_too(ticketing: SimulatorProcess, marker: str) -> None:
    ticketing.plan(search_lag_seconds=600)
    ticket_id = make_ticket(ticketing, marker + "a").json()["ticket"]["id"]
    path, body = f"/api/main/tickets/{ticket_id}/comments", {"body": "done", "external_id": marker}
    answers = [call(ticketing, "POST", path, json=body, headers={"Idempotency-Key": marker}) for _ in range(2)]
    assert [answer.headers["x-idempotency-lookup"] for answer in answers] == ["miss", "hit"]
    assert call(ticketing, "GET", path, params={"external_id": marker}).json() == {"comments": []}
    ticketing.advance(601)
    found = call(ticketing, "GET", path, params={"external_id": marker}).json()["comments"]
    assert found == [answers[0].json()["comment"]]
    [effect] = ticketing.effects(marker)
    assert (effect["kind"], effect["target"]) == ("comment", ticket_id)
    assert call(ticketing, "POST", "/api/main/tickets/T-0/comments", json=body).status_code == 404


def test_a_key_whose_first_request_still_runs_is_a_conflict(ticketing: SimulatorProcess, marker: str) -> None:
    ticketing.hold("before_apply", marker=marker)
    with pytest.raises(httpx.ReadTimeout):
        make_ticket(ticketing, marker)
    ticketing.wait_held()
    running = make_ticket(ticketing, marker)
    assert (running.status_code, running.json()) == (409, {"error": "concurrent"})
    ticketing.release()
    eventually(lambda: ticketing.effects(marker))
    assert make_ticket(ticketing, marker).headers["x-idempotency-lookup"] == "hit"


def test_a_forgotten_key_makes_a_second_ticket(ticketing: SimulatorProcess, marker: str) -> None:
    ticketing.plan(script=[{"marker": marker, "faults": ["none", "forget_key"]}])
    assert [make_ticket(ticketing, marker).headers["x-idempotency-lookup"] for _ in range(2)] == ["miss", "miss"]
    assert len(ticketing.effects(marker)) == 2


# --- Faults over HTTP ---


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("provider", ["crm", "ticketing"])
def test_each_fault_shows_the_client_what_it_promises(
    processes: dict[str, SimulatorProcess], marker: str, provider: str, fault: Fault
) -> None:
    # Given a plan that gives this marker this fault once
    process, write = healthy(processes[provider]), close_case if provider == "crm" else make_ticket
    process.plan(script=[{"marker": marker, "faults": [fault]}], late_seconds=3600, unauthorized_seconds=0)
    # When it writes
    expected = HTTP_ANSWER[fault]
    if isinstance(expected, int):
        answer = write(process, marker)
        assert answer.status_code == (201 if (provider, expected) == ("ticketing", 200) else expected)
    else:
        with pytest.raises(expected):
            write(process, marker)
    # Then the store knows better than the client
    if fault is Fault.APPLY_LATE:
        assert process.effects(marker) == []
        assert process.store()["pending"] == 1
        process.advance(3601)
        eventually(lambda: process.effects(marker))
    assert len(process.effects(marker)) == (fault in APPLIED)
    [request] = process.requests(marker)
    assert (request["fault"], request["applied"]) == (fault, fault in APPLIED)


def test_throttling_says_when_to_come_back(crm: SimulatorProcess, marker: str) -> None:
    crm.plan(rates={"throttle": 1.0}, retry_after_seconds=17)
    assert close_case(crm, marker).headers["retry-after"] == "17"


def test_an_account_that_lost_its_token_is_refused_for_a_while_and_others_are_not(crm: SimulatorProcess, marker: str) -> None:
    crm.plan(script=[{"marker": marker, "faults": ["unauthorized"]}], unauthorized_seconds=60)
    assert close_case(crm, marker).status_code == 401
    assert call(crm, "GET", "/v1/main/cases/a").status_code == 401
    assert call(crm, "GET", "/v1/other/cases/a").status_code == 200
    crm.advance(61)
    assert close_case(crm, marker).status_code == 200


def test_a_provider_that_refuses_repetition_refuses_what_took_effect(crm: SimulatorProcess, marker: str) -> None:
    crm.plan(script=[{"marker": marker, "faults": ["drop_reply", "refuse_repeat"]}])
    with pytest.raises(httpx.RemoteProtocolError):
        close_case(crm, marker)
    assert [close_case(crm, marker).status_code for _ in range(2)] == [409, 409]
    assert len(crm.effects(marker)) == 1


def test_a_late_application_judges_the_version_when_it_happens(crm: SimulatorProcess, marker: str) -> None:
    # Given a conditional write that is applied late
    crm.plan(script=[{"marker": marker, "faults": ["apply_late"]}], late_seconds=3600)
    with pytest.raises(httpx.RemoteProtocolError):
        close_case(crm, marker, **{"If-Match": '"1"'})
    # When its repetition comes first
    assert close_case(crm, marker, **{"If-Match": '"1"'}).status_code == 200
    crm.advance(3601)
    eventually(lambda: crm.store()["pending"] == 0)
    # Then the late one finds another version and writes nothing
    assert len(crm.effects(marker)) == 1


def test_a_late_application_that_stays_silent_keeps_its_key_busy(ticketing: SimulatorProcess, marker: str) -> None:
    ticketing.plan(script=[{"marker": marker, "faults": ["apply_late"]}], late_seconds=3600, late_silent=True)
    with pytest.raises(httpx.ReadTimeout):
        make_ticket(ticketing, marker)
    assert make_ticket(ticketing, marker).status_code == 409
    ticketing.advance(3601)
    eventually(lambda: ticketing.effects(marker))
    assert make_ticket(ticketing, marker).headers["x-idempotency-lookup"] == "hit"


def test_half_an_answer_has_a_status_and_not_its_whole_body(crm: SimulatorProcess, marker: str) -> None:
    crm.plan(script=[{"marker": marker, "faults": ["half_answer"]}])
    body = json.dumps({"status": "closed", "operation_id": marker}).encode()
    head = f"PATCH /v1/main/cases/{marker} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((crm.host, crm.http_port), DEADLINE) as connection:
        connection.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    received_head, _, received = answer.partition(b"\r\n\r\n")
    assert received_head.startswith(b"HTTP/1.1 200")
    [length] = [int(line.split(b":")[1]) for line in received_head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    assert 0 < len(received) < length


def test_look_ups_can_be_down(crm: SimulatorProcess, mail: SimulatorProcess) -> None:
    crm.plan(lookup_down=True)
    assert call(crm, "GET", "/v1/main/cases/a").status_code == 503
    mail.plan(lookup_down=True)
    with imaplib.IMAP4(mail.host, mail.imap_port, timeout=DEADLINE) as imap, pytest.raises(imaplib.IMAP4.error):
        imap.login("journal", "secret")


def test_two_processes_with_one_seed_misbehave_alike(tmp_path: Path) -> None:
    markers = [f"op_{number}" for number in range(30)]
    rates = {"unavailable": 0.3, "refuse": 0.3, "locked": 0.1}

    def outcomes(name: str, order: list[str], seed: int) -> dict[str, int]:
        with SimulatorProcess("crm", tmp_path / name, plan={"rates": rates}, seed=seed) as process:
            answers = {marker: close_case(process, marker).status_code for marker in order}
        return dict(sorted(answers.items()))

    first = outcomes("a", markers, 7)
    assert first == outcomes("b", markers[::-1], 7)
    assert first != outcomes("c", markers, 8)


# --- Holds, kills and restarts ---


def client_process(url: str, marker: str) -> subprocess.Popen[bytes]:
    script = (
        "import json, sys, urllib.request as u\n"
        "body = json.dumps({'status': 'closed', 'operation_id': sys.argv[2]}).encode()\n"
        "u.urlopen(u.Request(sys.argv[1], body, {'Authorization': 'Bearer x'}, method='PATCH'))\n"
    )
    return subprocess.Popen([sys.executable, "-c", script, f"{url}/v1/main/cases/{marker}", marker])


@pytest.mark.parametrize("phase", ["before_apply", "after_apply"])
def test_a_held_write_takes_effect_although_its_client_was_killed(crm: SimulatorProcess, marker: str, phase: Any) -> None:
    # Given a client whose write is held
    crm.hold(phase, marker=marker)
    client = client_process(crm.url, marker)
    held = crm.wait_held(DEADLINE)
    assert [(entry["marker"], entry["phase"]) for entry in held] == [(marker, phase)]
    assert len(crm.effects(marker)) == (phase == "after_apply")
    # When the client dies there and the hold ends
    client.kill()
    client.wait()
    assert crm.release() == 1
    # Then the write took effect, once
    eventually(lambda: crm.store()["pending"] == 0)
    assert len(crm.effects(marker)) == 1


def test_a_hold_can_let_some_pass_and_look_at_the_path(crm: SimulatorProcess, marker: str) -> None:
    crm.hold("after_apply", kind=f"/notes/{marker}", skip=1)
    assert close_case(crm, marker).status_code == 200
    path = f"/v1/main/cases/c/notes/{marker}"
    assert call(crm, "PUT", path, json={"text": "a"}).status_code == 201
    thread = threading.Thread(target=lambda: httpx.put(crm.url + path, json={"text": "b"}, headers={"Authorization": "Bearer x"}))
    thread.start()
    crm.wait_held()
    assert crm.release() == 1
    with pytest.raises(TimeoutError, match="held no write"):
        crm.wait_held(0.01)
    thread.join(DEADLINE)


def test_a_simulator_killed_at_its_worst_moment_keeps_what_took_effect(tmp_path: Path) -> None:
    # Given a ticket that was made, whose answer is held back, and a script with steps used up
    plan = {"script": [{"faults": ["unavailable", "none", "throttle"]}], "key_retention_seconds": 60}
    with SimulatorProcess("ticketing", tmp_path / "state", plan=plan) as process:
        assert make_ticket(process, "op_a").status_code == 503
        process.hold("after_apply")
        with pytest.raises(httpx.ReadTimeout):
            make_ticket(process, "op_a")
        process.wait_held()
        before, port = process.store(), process.http_port
        # When it is killed with SIGKILL and started again
        process.kill()
        assert not process.is_running
        process.restart()
        # Then it stands on the same port with the same truth, keys and steps
        assert process.http_port == port
        after = process.store()
        assert (after["effects"], after["requests"]) == (before["effects"], before["requests"])
        assert len(after["effects"]) == 1
        assert make_ticket(process, "op_a").status_code == 429
        assert make_ticket(process, "op_a").headers["x-idempotency-lookup"] == "hit"
        # And a posted plan and the clock survive the next kill
        process.plan(rates={"refuse": 1.0}, key_retention_seconds=60)
        process.advance(61)
        process.kill()
        process.restart()
        assert make_ticket(process, "op_b").status_code == 422
        process.plan(key_retention_seconds=60)
        assert make_ticket(process, "op_a").headers["x-idempotency-lookup"] == "miss"


def test_sigterm_ends_a_simulator_cleanly_also_while_it_holds_a_write(tmp_path: Path) -> None:
    process = SimulatorProcess("crm", tmp_path).start()
    process.hold("before_apply")
    client = client_process(process.url, "op_a")
    process.wait_held()
    assert process.stop() == 0
    assert client.wait() != 0
    assert (tmp_path / "crm.log").read_text() == ""


def test_a_simulator_that_cannot_start_says_why(tmp_path: Path) -> None:
    with SimulatorProcess("crm", tmp_path), pytest.raises(RuntimeError, match="in use by another simulator"):
        SimulatorProcess("crm", tmp_path).start()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's death signal and /proc")
def test_a_simulator_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, time\n"
        "from acuse_adapters.simulators.process import SimulatorProcess\n"
        "print(SimulatorProcess('crm', pathlib.Path(sys.argv[1])).start().pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    eventually(is_gone)


def test_a_wrong_control_call_is_refused_with_its_reason(crm: SimulatorProcess) -> None:
    with pytest.raises(RuntimeError, match="phase"):
        crm.call("POST", "/_sim/hold", {"phase": "someday"})
    assert crm.call("GET", "/_sim/health") == {"simulator": "crm", "ok": True}
    with pytest.raises(RuntimeError, match="404"):
        crm.call("GET", "/_sim/nothing")


# --- Email ---


def letter(marker: str, subject: str = "Case closed") -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "acuse@example.org", "ada@example.org", subject
    message["Message-ID"] = f"<{marker}@acuse.example>"
    message.set_content("Dear Ada,\n.a line with a dot in front\nÜ\n")
    return message.as_bytes(policy=email.policy.SMTP)


def send(mail: SimulatorProcess, marker: str, *, envid: bool = True, login: bool = False, raw: bytes | None = None) -> None:
    with smtplib.SMTP(mail.host, mail.smtp_port, timeout=PATIENCE) as smtp:
        if login:
            smtp.login("main", "secret")
        options = [f"ENVID={marker}"] if envid else []
        smtp.sendmail("acuse@example.org", ["ada@example.org"], raw or letter(marker), mail_options=options)


def sent_with(mail: SimulatorProcess, marker: str, **options: Any) -> int:
    """The reply code of a submission, 250 when it was accepted."""
    try:
        send(mail, marker, **options)
    except smtplib.SMTPRecipientsRefused as error:
        return error.recipients["ada@example.org"][0]
    except smtplib.SMTPResponseException as error:
        return error.smtp_code
    return 250


@contextlib.contextmanager
def journal(mail: SimulatorProcess) -> Iterator[imaplib.IMAP4]:
    with imaplib.IMAP4(mail.host, mail.imap_port, timeout=DEADLINE) as imap:
        imap.login("journal", 'se"cret')
        assert imap.select("Journal", readonly=True)[0] == "OK"
        yield imap


def found_uids(imap: imaplib.IMAP4, marker: str) -> list[bytes]:
    _, [uids] = imap.uid("SEARCH", "HEADER", "Message-ID", f'"<{marker}@acuse.example>"')
    return uids.split()


def test_an_accepted_message_is_stored_whole_and_found_by_imap(mail: SimulatorProcess, marker: str) -> None:
    send(mail, marker, login=True)
    [effect] = mail.effects(marker)
    assert (effect["kind"], effect["account"], effect["target"]) == ("email", "main", "ada@example.org")
    assert mail.table("messages")[effect["id"]]["sender"] == "acuse@example.org"
    with journal(mail) as imap:
        [uid] = found_uids(imap, marker)
        _, [(_, body), _] = imap.uid("FETCH", uid.decode(), "(BODY.PEEK[])")
        assert body == letter(marker)
        _, [sequences] = imap.search(None, "HEADER", "Message-ID", marker)
        [sequence] = sequences.split()
        _, [(envelope, head), _] = imap.fetch(sequence.decode(), "(UID FLAGS BODY.PEEK[HEADER])")
        assert b"UID " + uid in envelope
        assert head == letter(marker).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        _, [(_, whole), _] = imap.fetch(sequence.decode(), "(RFC822)")
        assert whole == letter(marker)
        assert found_uids(imap, "op_never") == []
        assert imap.noop()[0] == imap.close()[0] == "OK"


def test_the_journal_lags_and_an_open_session_sees_what_appears(mail: SimulatorProcess, marker: str) -> None:
    mail.plan(journal_lag_seconds=600)
    send(mail, marker)
    with journal(mail) as imap:
        assert found_uids(imap, marker) == []
        mail.advance(601)
        assert len(found_uids(imap, marker)) == 1


def test_imap_says_no_to_what_it_does_not_have(mail: SimulatorProcess) -> None:
    with imaplib.IMAP4(mail.host, mail.imap_port, timeout=DEADLINE) as imap:
        assert "IMAP4REV1" in imap.capabilities
        with pytest.raises(imaplib.IMAP4.error):
            imap.search(None, "ALL")
        imap.login("a", "b")
        assert imap.select("Nowhere")[0] == "NO"
        assert imap.select("INBOX") == ("OK", [b"0"])
        assert imap.list()[1] == [b'(\\HasNoChildren) "/" INBOX', b'(\\HasNoChildren) "/" Journal']
        with pytest.raises(imaplib.IMAP4.error, match="BAD"):
            imap.search(None, "NEVERHEARD")


@pytest.mark.parametrize("envid", [True, False])
@pytest.mark.parametrize("fault", list(Fault))
def test_each_fault_shows_the_mail_client_what_it_promises(
    mail: SimulatorProcess, marker: str, fault: Fault, envid: bool
) -> None:
    # Given a plan that gives this marker this fault once
    mail.plan(script=[{"marker": marker, "faults": [fault]}], late_seconds=3600, unauthorized_seconds=0)
    # When it is sent, with or without the marker in the envelope
    expected = SMTP_ANSWER[fault]
    if isinstance(expected, int):
        assert sent_with(mail, marker, envid=envid) == expected
    else:
        with pytest.raises(smtplib.SMTPServerDisconnected, match=expected):
            send(mail, marker, envid=envid)
    # Then the store knows better than the client
    if fault is Fault.APPLY_LATE:
        assert mail.effects(marker) == []
        mail.advance(3601)
        eventually(lambda: mail.effects(marker))
    assert len(mail.effects(marker)) == (fault in APPLIED)
    [request] = mail.requests(marker)
    assert (request["fault"], request["applied"]) == (fault, fault in APPLIED)
    # And the next try goes through
    if fault not in APPLIED:
        assert sent_with(mail, marker, envid=envid) == 250


def conversation(mail: SimulatorProcess, marker: str, lines: list[str]) -> list[bytes]:
    """The replies to these lines, one each; the last is empty when the server hung up or reset."""
    with socket.create_connection((mail.host, mail.smtp_port), DEADLINE) as connection, connection.makefile("rb") as replies:
        heard = [replies.readline()]
        for line in lines:
            with contextlib.suppress(ConnectionError):
                connection.sendall(line.encode() + b"\r\n")
                heard.append(replies.readline())
                continue
            heard.append(b"")
    return heard


def test_early_refusals_come_at_the_command_where_real_servers_say_them(mail: SimulatorProcess, marker: str) -> None:
    sender, recipient = f"MAIL FROM:<a@b.c> ENVID={marker}", "RCPT TO:<d@e.f>"
    mail.plan(
        script=[{"marker": marker, "faults": ["throttle", "unavailable", "unauthorized", "refuse", "locked"]}],
        unauthorized_seconds=0,
    )
    assert conversation(mail, marker, ["HELO x", sender])[2][:3] == b"451"
    assert [reply[:3] for reply in conversation(mail, marker, ["HELO x", sender, "NOOP"])[2:]] == [b"421", b""]
    assert conversation(mail, marker, ["HELO x", sender])[2][:3] == b"530"
    assert [reply[:3] for reply in conversation(mail, marker, ["HELO x", sender, recipient])[2:]] == [b"250", b"550"]
    assert [reply[:3] for reply in conversation(mail, marker, ["HELO x", sender, recipient])[2:]] == [b"250", b"450"]


def test_half_a_reply_and_a_reset_at_quit(mail: SimulatorProcess, marker: str) -> None:
    mail.plan(script=[{"marker": marker, "faults": ["half_answer", "reset_at_quit", "drop_before"]}])
    lines = ["HELO x", "MAIL FROM:<a@b.c>", "RCPT TO:<d@e.f>", "DATA", f"Message-ID: <{marker}@x>\r\n\r\nhi\r\n."]
    assert conversation(mail, marker, lines)[-1] == b"25"
    accepted = conversation(mail, marker, [*lines, "QUIT"])
    assert accepted[-2].startswith(b"250")
    assert accepted[-1] == b""
    # in the middle of DATA: the final dot was never sent
    assert conversation(mail, marker, [*lines[:-1], f"Message-ID: <{marker}@x>\r\n"])[-1] == b""
    assert len(mail.effects(marker)) == 2


def test_an_account_without_its_rights_cannot_log_in_for_a_while(mail: SimulatorProcess, marker: str) -> None:
    mail.plan(script=[{"marker": marker, "faults": ["unauthorized"]}], unauthorized_seconds=60)
    assert sent_with(mail, marker, login=True) == 530
    assert sent_with(mail, marker, login=True) == 535
    assert sent_with(mail, marker + "x") == 250  # another account: none
    mail.advance(61)
    assert sent_with(mail, marker, login=True) == 250


def test_repeated_mail_is_a_double_unless_the_server_refuses_repetition(mail: SimulatorProcess, marker: str) -> None:
    assert [sent_with(mail, marker) for _ in range(2)] == [250, 250]
    assert len(mail.effects(marker)) == 2
    mail.plan(script=[{"marker": marker + "r", "faults": ["refuse_repeat"]}])
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(mail, marker + "r")
    assert [sent_with(mail, marker + "r") for _ in range(2)] == [554, 554]
    assert len(mail.effects(marker + "r")) == 1


def test_mail_held_at_the_final_dot_is_stored_although_its_client_is_gone(mail: SimulatorProcess, marker: str) -> None:
    mail.hold("before_apply", kind="email", marker=marker)
    with pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"):
        send(mail, marker)
    assert [entry["marker"] for entry in mail.wait_held()] == [marker]
    assert mail.effects(marker) == []
    mail.release()
    eventually(lambda: mail.effects(marker))


def test_mail_survives_the_death_of_its_server(tmp_path: Path) -> None:
    with SimulatorProcess("email", tmp_path) as process:
        send(process, "op_a")
        ports = (process.http_port, process.smtp_port, process.imap_port)
        os.kill(process.pid, signal.SIGKILL)
        process.kill()
        process.restart()
        assert ports == (process.http_port, process.smtp_port, process.imap_port)
        with journal(process) as imap:
            assert found_uids(imap, "op_a") == [b"1"]


def test_a_script_without_marker_can_speak_before_the_message_is_known(mail: SimulatorProcess, marker: str) -> None:
    mail.plan(script=[{"match": "acuse@example.org", "faults": ["throttle"], "per": "entry"}])
    assert sent_with(mail, marker, envid=False) == 451
    assert [request["marker"] for request in mail.store()["requests"]][-1] is None
    assert sent_with(mail, marker, envid=False) == 250
