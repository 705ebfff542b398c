"""A contract that is half-true cannot be constructed, and the refusal names the field."""

from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from acuse.protocol import (
    LONGEST_DEADLINE,
    Consistency,
    Figure,
    Hours,
    Key,
    Lookup,
    Marker,
    Minutes,
    NaturalUpsert,
    Replays,
    RetryContract,
    Seconds,
    measured,
    team,
    vendor,
)

DAY = date(2026, 11, 30)
OPERATION_ID = "op_" + "0" * 32


def key(**changes: Any) -> Key:
    whole: dict[str, Any] = {
        "header": "Idempotency-Key",
        "max_length": 255,
        "retention": Hours(2),
        "margin": Minutes(5),
        "replays": Replays.FIRST_ANSWER,
    }
    return Key(**whole | changes)


def contract(**changes: Any) -> RetryContract:
    whole: dict[str, Any] = {
        "version": "2026-11",
        "verified_on": DAY,
        "source": "https://provider.example/docs",
        "deadline": Seconds(20),
        "again_means": "the customer gets a second ticket",
        "key": key(),
        "marker": Marker(where="external_id"),
        "lookup": Lookup(by="external_id", consistency=Consistency.EVENTUAL),
        "max_in_flight": team(Minutes(2), by="ops", on=DAY, because="longest seen"),
        "refused": frozenset({400, 422}),
        "not_executed": frozenset({429}),
        "account_faults": frozenset({401, 403}),
    }
    return RetryContract(**whole | changes)


def test_a_whole_contract_can_be_constructed_and_survives_json() -> None:
    whole = contract()

    assert RetryContract.model_validate_json(whole.model_dump_json()) == whole


def test_a_contract_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        contract().deadline = Seconds(1)  # type: ignore[misc]


def test_a_field_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValidationError, match="retries"):
        contract(retries=3)


@pytest.mark.parametrize("field", ["version", "verified_on", "source", "deadline", "again_means"])
def test_a_contract_without_a_date_a_source_or_a_consequence_is_refused(field: str) -> None:
    whole = contract().model_dump()
    del whole[field]

    with pytest.raises(ValidationError, match=field):
        RetryContract.model_validate(whole)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"version": ""}, "version", id="empty version"),
        pytest.param({"source": ""}, "source", id="empty source"),
        pytest.param({"again_means": "double"}, "again_means", id="a consequence that is no sentence"),
        pytest.param({"deadline": Seconds(0)}, "deadline must be above 0", id="no deadline"),
        pytest.param({"deadline": LONGEST_DEADLINE + Seconds(1)}, "deadline must be .* at most 45 s", id="beyond the lease"),
        pytest.param({"max_in_flight": None}, "key needs max_in_flight", id="a key without a bound on what is in flight"),
        pytest.param({"refused": {200}}, "refused contains 200, which is an acceptance", id="success as refusal"),
        pytest.param({"not_executed": {202}}, "not_executed contains 202", id="success as not executed"),
        pytest.param({"account_faults": {204}}, "account_faults contains 204", id="success as account fault"),
        pytest.param({"refused": {400, 429}}, "429 is in refused and in not_executed", id="refused and not executed"),
        pytest.param({"refused": {403}}, "403 is in refused and in account_faults", id="refused and account fault"),
        pytest.param({"not_executed": {401}}, "401 is in not_executed and in account_faults", id="two meanings"),
        pytest.param({"refused": {500}}, "refused contains 500: a server error", id="a server error as refusal"),
        pytest.param({"refusals_cover_key": {402}}, "refusals_cover_key must be a part of refused", id="covers without refusing"),
        pytest.param(
            {"key": None, "refusals_cover_key": {400}},
            "refusals_cover_key needs a key to cover",
            id="covers a key that is not there",
        ),
        pytest.param({"marker": None}, "lookup needs a marker", id="a look-up without a marker"),
        pytest.param(
            {"marker": Marker(where="subject", readable_back=False)},
            "readable_back",
            id="a look-up by a marker that cannot be read",
        ),
        pytest.param(
            {"natural_upsert": NaturalUpsert(by="external_id"), "lookup": None},
            "natural_upsert needs a lookup",
            id="an upsert that is repeated blindly",
        ),
    ],
)
def test_a_half_true_contract_is_refused_and_the_message_names_the_field(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        contract(**changes)


@pytest.mark.parametrize("replays", [Replays.SUCCESS_ONLY, Replays.NOTHING])
def test_a_refusal_covers_the_key_only_if_it_is_stored(replays: Replays) -> None:
    with pytest.raises(ValidationError, match=r"refusals_cover_key needs key\.replays to be first_answer"):
        contract(key=key(replays=replays), refusals_cover_key={400})

    assert contract(refusals_cover_key={400}).refusals_cover_key == {400}


def test_the_answer_to_a_concurrent_repeat_is_no_refusal() -> None:
    with pytest.raises(ValidationError, match=r"key\.on_concurrent is 409, which is in refused"):
        contract(key=key(on_concurrent=409), refused={400, 409})


def test_the_answer_to_a_key_with_another_body_does_not_cover_the_key() -> None:
    with pytest.raises(ValidationError, match=r"key\.on_other_body is 400, which is in refusals_cover_key"):
        contract(key=key(on_other_body=400), refusals_cover_key={400})

    assert contract(key=key(on_other_body=400)).key  # a provider may use one status for both: then it only refuses that attempt


@pytest.mark.invariant(7)
def test_a_key_whose_window_would_never_be_open_is_refused() -> None:
    spent = Minutes(5) + Minutes(2) + Seconds(20)

    with pytest.raises(ValidationError, match=r"key\.retention is not longer than margin \+ max_in_flight \+ deadline"):
        contract(key=key(retention=spent))

    assert contract(key=key(retention=spent + Seconds(1))).key


def test_a_margin_cannot_be_negative() -> None:
    with pytest.raises(ValidationError, match=r"key\.margin cannot be negative"):
        contract(key=key(margin=Seconds(-1)))


def test_a_key_must_have_room_for_an_operation_id() -> None:
    assert key(max_length=len(OPERATION_ID)).max_length == len(OPERATION_ID)

    with pytest.raises(ValidationError, match="max_length"):
        key(max_length=len(OPERATION_ID) - 1)


@pytest.mark.parametrize("field", ["header", "max_length", "retention", "margin", "replays"])
def test_a_key_states_where_it_goes_how_long_it_lives_and_what_a_repeat_is_answered(field: str) -> None:
    whole = key().model_dump()
    del whole[field]

    with pytest.raises(ValidationError, match=field):
        Key.model_validate(whole)


def test_a_strong_look_up_has_no_lag() -> None:
    with pytest.raises(ValidationError, match="leave visible_within out"):
        Lookup(by="id", consistency=Consistency.STRONG, visible_within=vendor(Seconds(1)))


def test_a_bare_duration_is_what_the_contract_s_source_says() -> None:
    retention = key(retention=Hours(2)).retention

    assert retention == vendor(Hours(2))
    assert retention.basis == "vendor"


@pytest.mark.parametrize("basis", ["measured", "team"])
@pytest.mark.parametrize("missing", ["by", "on", "because"])
def test_a_figure_that_no_vendor_states_needs_a_name_a_date_and_a_reason(basis: str, missing: str) -> None:
    whole = {"value": Seconds(60), "basis": basis, "by": "ops", "on": DAY, "because": "longest seen"}
    del whole[missing]

    with pytest.raises(ValidationError, match="needs by, on and because"):
        Figure.model_validate(whole)


def test_figures_carry_their_basis() -> None:
    assert measured(Seconds(3), by="certify", on=DAY, because="p100 of 10,000 reads").basis == "measured"
    assert team(Seconds(3), by="ops", on=DAY, because="longest seen").basis == "team"


@pytest.mark.parametrize("make", [vendor, lambda value: team(value, by="ops", on=DAY, because="longest seen")])
def test_a_figure_cannot_be_negative(make: Any) -> None:
    with pytest.raises(ValidationError, match="cannot be negative"):
        make(Seconds(-1))


def test_a_negative_figure_is_refused_under_the_name_of_its_field() -> None:
    with pytest.raises(ValidationError, match="max_in_flight"):
        contract(max_in_flight=Seconds(-1))


def test_the_longest_deadline_is_inside_the_lease() -> None:
    assert timedelta(0) < LONGEST_DEADLINE < Seconds(60)
    assert contract(deadline=LONGEST_DEADLINE).deadline == LONGEST_DEADLINE
