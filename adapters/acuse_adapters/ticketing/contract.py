"""What the ticketing system promises about repeating a call."""

from datetime import date, timedelta
from typing import Final

from acuse.protocol import Consistency, Figure, Hours, Key, Lookup, Marker, Minutes, Replays, RetryContract, Seconds, team, vendor
from acuse_adapters.port import contract_version

__all__ = ["VERIFIED_ON", "comment_contract", "create_contract"]

VERIFIED_ON: Final = date(2026, 11, 30)
_SOURCE: Final = "acuse_adapters/simulators/ticketing.py: the API as it describes itself, after Zendesk's"
_DEADLINE: Final = Seconds(20)
_MAX_IN_FLIGHT: Final = team(
    Minutes(2), by="Acuse", on=VERIFIED_ON, because="no vendor states it; twice the longest gateway timeout that is common"
)
_RETENTION: Final = vendor(Hours(2))
_LONGEST_MARGIN: Final = Minutes(5)
"""For the difference of clocks and for queues at the provider; a tenth of the retention where that is short."""


def create_contract(
    deadline: timedelta = _DEADLINE, max_in_flight: Figure = _MAX_IN_FLIGHT, retention: Figure = _RETENTION
) -> RetryContract:
    """A key that expires, and a search that lags by nobody knows how much."""
    return _contract(deadline, max_in_flight, retention, "the customer gets a second ticket")


def comment_contract(
    deadline: timedelta = _DEADLINE, max_in_flight: Figure = _MAX_IN_FLIGHT, retention: Figure = _RETENTION
) -> RetryContract:
    """The same key and the same search, within one ticket."""
    return _contract(deadline, max_in_flight, retention, "the customer reads the same comment twice")


def _contract(deadline: timedelta, max_in_flight: Figure, retention: Figure, again_means: str) -> RetryContract:
    margin = min(_LONGEST_MARGIN, retention.value / 10)
    return RetryContract(
        version=contract_version("2026-11", deadline=deadline, flight=max_in_flight.value, key=retention.value),
        verified_on=VERIFIED_ON,
        source=_SOURCE,
        deadline=deadline,
        max_in_flight=max_in_flight,
        key=Key(
            header="Idempotency-Key",
            max_length=255,
            scope="account",
            retention=retention,
            margin=margin,
            replays=Replays.SUCCESS_ONLY,
            on_other_body=400,  # and so is a body that cannot be read: the adapter tells them apart
            on_concurrent=409,
        ),
        marker=Marker(where="external_id"),
        lookup=Lookup(by="external_id", consistency=Consistency.EVENTUAL),
        refused=frozenset({400, 404, 422}),
        not_executed=frozenset({423, 429}),
        account_faults=frozenset({401, 403}),
        again_means=again_means,
    )
