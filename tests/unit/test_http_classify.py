"""What statuses and failures over HTTP mean, by phase and contract; what an answer that is no answer means."""

from datetime import date, timedelta
from typing import Any

import httpx
import pytest

from acuse.errors import ConfigurationError
from acuse.protocol import Ambiguous, Concerns, Key, Minutes, NotSent, Outcome, Refused, Replays, RetryContract, Seconds, team
from acuse_adapters.crm.adapter import CrmAdapter
from acuse_adapters.crm.settings import CrmSettings
from acuse_adapters.http import HttpAdapter, Reply
from acuse_adapters.http.classify import LONGEST_RETRY_AFTER, Wire, failure, refusal, retry_after, trouble, unreadable
from acuse_adapters.port import Ended, Phase, is_storable, segment, storable
from acuse_adapters.ticketing.adapter import TicketingAdapter
from acuse_adapters.ticketing.settings import TicketSettings

ON = date(2026, 11, 30)


def contract(**fields: Any) -> RetryContract:
    plain: dict[str, Any] = {
        "version": "1",
        "verified_on": ON,
        "source": "a test",
        "deadline": Seconds(5),
        "again_means": "it happens twice",
        "max_in_flight": team(Seconds(5), by="ops", on=ON, because="a test"),
        "key": Key(
            header="Idempotency-Key",
            max_length=64,
            retention=Minutes(60),
            margin=Seconds(1),
            replays=Replays.FIRST_ANSWER,
            on_other_body=412,
            on_concurrent=409,
        ),
        "refused": {404, 422, 300},
        "refusals_cover_key": {422},
        "not_executed": {429, 503},
        "account_faults": {401, 403},
    }
    return RetryContract(**{**plain, **fields})


NEVER_SENT = [httpx.ConnectError("x"), httpx.ConnectTimeout("x"), httpx.PoolTimeout("x"), httpx.UnsupportedProtocol("x")]
IN_DOUBT = [
    httpx.WriteError("x"),
    httpx.WriteTimeout("x"),
    httpx.ReadError("x"),
    httpx.ReadTimeout("x"),
    httpx.CloseError("x"),
    httpx.RemoteProtocolError("Server disconnected without sending a response."),
    httpx.ProxyError("x"),
    httpx.DecodingError("x"),
    OSError("TLS"),
    TimeoutError(),
]


@pytest.mark.parametrize("error", NEVER_SENT, ids=lambda it: type(it).__name__)
def test_a_connection_that_never_was_has_sent_nothing(error: Exception) -> None:
    assert isinstance(failure(Phase.SEND, error, Wire.WRITTEN), NotSent)


@pytest.mark.invariant(5)
@pytest.mark.parametrize("wire", [Wire.BEGUN, Wire.WRITTEN])
@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda it: type(it).__name__)
def test_once_bytes_may_have_left_every_failure_is_ambiguous(error: Exception, wire: Wire) -> None:
    assert isinstance(failure(Phase.SEND, error, wire), Ambiguous)


@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda it: type(it).__name__)
def test_before_the_first_byte_nothing_was_sent_even_at_the_deadline(error: Exception) -> None:
    assert isinstance(failure(Phase.SEND, error, Wire.IDLE), NotSent)


def test_a_request_that_cannot_be_written_was_not_sent_and_its_token_is_not_repeated() -> None:
    error = httpx.LocalProtocolError("Illegal header value b'Bearer secret'")
    unsent = failure(Phase.SEND, error, Wire.BEGUN)
    assert isinstance(unsent, NotSent)
    assert "secret" not in unsent.reason
    assert isinstance(failure(Phase.SEND, error, Wire.WRITTEN), Ambiguous)


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LOOK_UP])
@pytest.mark.parametrize("error", [*NEVER_SENT, *IN_DOUBT], ids=lambda it: type(it).__name__)
def test_outside_of_send_a_failure_has_sent_nothing(phase: Phase, error: Exception) -> None:
    assert isinstance(failure(phase, error, Wire.WRITTEN), NotSent)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (301, Ambiguous("301: a redirect, which is not followed: the request may have been carried out")),
        (304, Ambiguous("304: a redirect, which is not followed: the request may have been carried out")),
        (300, Refused("300", "why")),
        (400, Ambiguous("400: the contract does not say what this means. why")),
        (401, NotSent("401: why", account_fault=True)),
        (403, NotSent("403: why", account_fault=True)),
        (404, Refused("404", "why")),
        (409, NotSent("409: the first request with this key is still running", concerns=Concerns.OPERATION)),
        (412, Ambiguous("412: the key was used with another body. why", review=True)),
        (418, Ambiguous("418: the contract does not say what this means. why")),
        (422, Refused("422", "why", covers_key=True)),
        (429, NotSent("429: why", concerns=Concerns.ACCOUNT)),
        (500, Ambiguous("500: the contract does not say what this means. why")),
        (503, NotSent("503: why")),
        (504, Ambiguous("504: the contract does not say what this means. why")),
    ],
)
def test_a_status_means_what_the_contract_says_and_otherwise_nothing(status: int, expected: Outcome) -> None:
    assert refusal(contract(), status, "why", {}) == expected


def test_throttling_and_account_faults_carry_the_wish_of_the_provider() -> None:
    headers = {"retry-after": "17"}
    for status in (401, 409, 429):
        outcome = refusal(contract(), status, "why", headers)
        assert isinstance(outcome, NotSent)
        assert outcome.retry_after == timedelta(seconds=17)
    assert trouble(contract(), 503, "why", headers) == NotSent("503: why", timedelta(seconds=17))
    assert trouble(contract(), 403, "why", {}).account_fault


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1.5"}, None),
        ({"retry-after": "0"}, timedelta(0)),
        ({"retry-after": " 120 "}, timedelta(minutes=2)),
        ({"retry-after": "9" * 30}, LONGEST_RETRY_AFTER),
        ({"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, timedelta(seconds=30)),
        ({"retry-after": "Mon, 30 Nov 2026 09:00:00 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, timedelta(0)),
        ({"retry-after": "Mon, 30 Nov 2099 10:00:00 GMT"}, LONGEST_RETRY_AFTER),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_at_most_an_hour(headers: dict[str, str], expected: timedelta | None) -> None:
    assert retry_after(headers) == expected


def test_a_success_that_cannot_be_read_is_ambiguous_only_where_something_was_sent() -> None:
    assert isinstance(unreadable(Phase.SEND, "x"), Ambiguous)
    assert isinstance(unreadable(Phase.PREPARE, "x"), NotSent)
    assert isinstance(unreadable(Phase.LOOK_UP, "x"), NotSent)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"ticket": {}}', b'{"ticket": null}', b'{"ticket": {"id": null}}'],
)
def test_an_answer_without_the_field_ends_the_call(body: bytes) -> None:
    for phase, kind in ((Phase.SEND, Ambiguous), (Phase.LOOK_UP, NotSent)):
        with pytest.raises(Ended) as caught:
            Reply(200, {}, body, phase).text("ticket", "id")
        assert isinstance(caught.value.outcome, kind)
        assert "unparsable answer" in caught.value.outcome.reason


def test_a_missing_field_ends_the_call_at_any_depth_and_is_not_swallowed_as_an_exception() -> None:
    reply = Reply(200, {}, b'{"ticket": {"tags": [{"id": 7}]}}', Phase.SEND)
    assert reply["ticket"]["tags"][0]["id"] == 7
    with pytest.raises(Ended):
        reply["ticket"]["tags"][0]["name"]
    assert not issubclass(Ended, Exception)


def test_an_id_is_kept_exactly_or_not_at_all() -> None:
    assert Reply(200, {}, b'{"id": 81, "v": "T-81"}', Phase.SEND).text("id") == "81"
    for wrong in (
        b'{"id": true}',
        b'{"id": 1.5}',
        b'{"id": ""}',
        b'{"id": "a\\u0000"}',
        b'{"id": "\\ud800"}',
        b'{"id": "%s"}' % (b"x" * 256),
    ):
        with pytest.raises(Ended):
            Reply(200, {}, wrong, Phase.SEND).text("id")


def test_a_reason_can_be_stored_and_shows_no_address() -> None:
    said = Reply(422, {}, b'{"error": "bad\\u0000\\ud800", "reason": "no user ada@example.org\\n here"}', Phase.SEND).reason
    assert said == "bad?? · no user <address> here"
    assert len(Reply(422, {}, b"<html>" + b"x" * 5000, Phase.SEND).reason) == 300
    assert Reply(422, {}, b"", Phase.SEND).reason == "no reason given"
    assert storable("550 <ada@example.org>: unknown") == "550 <address>: unknown"
    assert is_storable("T-1", 3)
    assert not is_storable("T-11", 3)


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_no_reference_leads_to_another_path(value: str) -> None:
    with pytest.raises(ValueError):
        segment(value)
    assert segment("a/../b?c#d é") == "a%2F..%2Fb%3Fc%23d%20%C3%A9"


@pytest.mark.case("R067")
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (409, b'{"error": "concurrent"}', NotSent),
        (409, b'{"error": "something else"}', Ambiguous),
        (409, b"", Ambiguous),
        (400, b'{"error": "IdempotentRequestError"}', Ambiguous),
        (400, b'{"error": "bad_request"}', Refused),
        (400, b"not json", Refused),
    ],
)
def test_one_status_with_two_meanings_is_told_apart_by_its_body(status: int, body: bytes, expected: type[Outcome]) -> None:
    # Given the ticketing system's contract and an answer to a send
    adapter = TicketingAdapter(TicketSettings(url="http://tickets.example"))  # type: ignore[arg-type]
    reply = Reply(status, {}, body, Phase.SEND)
    # When it is read as the channel reads it
    declared = adapter.actions["ticket.create.v1"].contract
    outcome = adapter.read_refusal(reply) or refusal(declared, reply.status, reply.reason, reply.headers)
    # Then a known key with another body goes to a person, and a conflict without a known code proves nothing
    assert isinstance(outcome, expected)
    if isinstance(outcome, Ambiguous):
        assert outcome.review == (status == 400)


# --- the start-up check ---


class Plain(HttpAdapter):
    provider = "plain"


class Retrying(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=3), trust_env=False)


class Following(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(), follow_redirects=True, trust_env=False)


class FromEnvironment(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient()


class Digest(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(auth=httpx.DigestAuth("a", "b"), trust_env=False)


class Mounted(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(mounts={"https://": httpx.AsyncHTTPTransport(retries=1)}, trust_env=False)


class OwnTransport(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200)), trust_env=False)


class DeclaredTransport(OwnTransport):
    sends_once = True


@pytest.mark.case("R005")
@pytest.mark.invariant(4)
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Retrying, "retries by itself"),
        (Mounted, "retries by itself"),
        (Following, "follows redirects"),
        (FromEnvironment, "from the environment"),
        (Digest, "may send a request again"),
        (OwnTransport, "declare sends_once"),
        (Plain, None),
        (DeclaredTransport, None),
    ],
)
def test_an_adapter_whose_client_may_send_twice_does_not_start(kind: type[Plain], says: str | None) -> None:
    problems = kind("http://provider.example").problems()
    assert bool(problems) == (says is not None)
    assert all(says in problem for problem in problems if says)


# --- settings ---


def test_an_adapter_without_its_address_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACUSE_CRM_URL", raising=False)
    assert CrmAdapter.from_environment() is None
    monkeypatch.setenv("ACUSE_CRM_URL", "")
    assert CrmAdapter.from_environment() is None


def test_settings_reach_the_contract_as_figures_of_the_team(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACUSE_TICKET_URL", "http://tickets.example")
    monkeypatch.setenv("ACUSE_TICKET_KEY_RETENTION_SECONDS", "60")
    monkeypatch.setenv("ACUSE_TICKET_DEADLINE_SECONDS", "2")
    monkeypatch.setenv("ACUSE_TICKET_MAX_IN_FLIGHT_SECONDS", "3")
    adapter = TicketingAdapter.from_environment()
    assert adapter is not None
    declared = adapter.actions["ticket.create.v1"].contract
    assert declared.key is not None
    assert declared.max_in_flight is not None
    assert (declared.key.retention.basis, declared.key.retention.because) == ("team", "set by ACUSE_TICKET_KEY_RETENTION_SECONDS")
    assert (declared.deadline, declared.max_in_flight.value, declared.key.margin) == (Seconds(2), Seconds(3), Seconds(6))
    assert declared.version == "2026-11 deadline2 flight3 key60"
    # And other instances keep theirs
    untouched = TicketingAdapter(TicketSettings.model_construct(url="http://x"))  # type: ignore[arg-type]
    assert untouched.actions["ticket.create.v1"].contract.version == "2026-11 deadline20 flight120 key7200"
    assert untouched.problems() == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ACUSE_CRM_URL", "nonsense"),
        ("ACUSE_CRM_DEADLINE_SECONDS", "46"),
        ("ACUSE_CRM_MAX_IN_FLIGHT_SECONDS", "long"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not_shown(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv("ACUSE_CRM_URL", "http://crm.example")
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=variable) as caught:
        CrmAdapter.from_environment()
    assert "nonsense" not in str(caught.value)


def test_a_key_window_that_would_never_open_is_told_with_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACUSE_TICKET_URL", "http://tickets.example")
    monkeypatch.setenv("ACUSE_TICKET_KEY_RETENTION_SECONDS", "30")
    with pytest.raises(ConfigurationError, match=r"ACUSE_TICKET_KEY_RETENTION_SECONDS.*never be open"):
        TicketingAdapter.from_environment()


def test_the_url_may_have_a_path_and_the_token_stays_out_of_sight() -> None:
    settings = CrmSettings(url="https://crm.example/api/", token="secret")  # type: ignore[arg-type]
    adapter = CrmAdapter(settings)
    assert adapter.url == "https://crm.example/api"
    assert adapter.headers("main") == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(settings)
