"""What the CRM promises about repeating a call."""

from datetime import date, timedelta
from typing import Final

from acuse.protocol import Consistency, Figure, Lookup, Marker, Minutes, NaturalUpsert, RetryContract, Seconds, team
from acuse_adapters.port import contract_version

__all__ = ["VERIFIED_ON", "close_case_contract", "log_note_contract"]

VERIFIED_ON: Final = date(2026, 11, 30)
_SOURCE: Final = "acuse_adapters/simulators/crm.py: the API as it describes itself"
_DEADLINE: Final = Seconds(20)
_MAX_IN_FLIGHT: Final = team(
    Minutes(2), by="Acuse", on=VERIFIED_ON, because="no vendor states it; twice the longest gateway timeout that is common"
)

_REFUSED: Final = frozenset({400, 404, 422})
_NOT_EXECUTED: Final = frozenset({412, 423, 429})
"""412: the case changed between our read and our write. 503 is not among them: nobody promises that nothing was done."""
_ACCOUNT_FAULTS: Final = frozenset({401, 403})


def close_case_contract(deadline: timedelta = _DEADLINE, max_in_flight: Figure = _MAX_IN_FLIGHT) -> RetryContract:
    """An upsert guarded by the version that `prepare` saw, whose change keeps our marker and can be read back at once."""
    return RetryContract(
        version=contract_version("2026-11", deadline=deadline, flight=max_in_flight.value),
        verified_on=VERIFIED_ON,
        source=_SOURCE,
        deadline=deadline,
        max_in_flight=max_in_flight,
        natural_upsert=NaturalUpsert(by="case", precondition="If-Match"),
        marker=Marker(where="operation_id of the change"),
        lookup=Lookup(by="operation_id", consistency=Consistency.STRONG),
        refused=_REFUSED,
        not_executed=_NOT_EXECUTED,
        account_faults=_ACCOUNT_FAULTS,
        again_means="the case is closed a second time: a line more in its history, and the resolution is written again",
    )


def log_note_contract(deadline: timedelta = _DEADLINE, max_in_flight: Figure = _MAX_IN_FLIGHT) -> RetryContract:
    """An upsert under an id of ours: nobody else writes there, and the same text twice is one note."""
    return RetryContract(
        version=contract_version("2026-11", deadline=deadline, flight=max_in_flight.value),
        verified_on=VERIFIED_ON,
        source=_SOURCE,
        deadline=deadline,
        max_in_flight=max_in_flight,
        natural_upsert=NaturalUpsert(by="external id"),
        marker=Marker(where="external id of the note"),
        lookup=Lookup(by="external id", consistency=Consistency.STRONG),
        refused=_REFUSED,
        not_executed=_NOT_EXECUTED - {412},
        account_faults=_ACCOUNT_FAULTS,
        again_means="nothing is added: the note with our id is written again with the same text",
    )
