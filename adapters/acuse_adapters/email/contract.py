"""What SMTP promises about sending again, with a journal mailbox and without one."""

from collections.abc import Collection
from datetime import date, timedelta
from typing import Final

from acuse.protocol import Consistency, Figure, Lookup, Marker, Minutes, RetryContract, Seconds, team
from acuse_adapters.port import contract_version

__all__ = ["VERIFIED_ON", "send_contract"]

VERIFIED_ON: Final = date(2026, 11, 30)
_DEADLINE: Final = Seconds(40)
_MAX_IN_FLIGHT: Final = team(
    Minutes(10), by="Acuse", on=VERIFIED_ON, because="RFC 5321, 4.5.3.2.6: a server may work on the final dot for ten minutes"
)

AUTH_FAULTS: Final = frozenset({530, 534, 535, 538})
"""RFC 4954, 6: authentication required, too weak, failed, or not without encryption. It is our login, not the message."""


def send_contract(
    deadline: timedelta = _DEADLINE,
    max_in_flight: Figure = _MAX_IN_FLIGHT,
    *,
    journal: bool = True,
    visible_within: Figure | None = None,
    not_executed_at_dot: Collection[int] = (),
) -> RetryContract:
    """No key: a message that was taken twice is delivered twice. A journal mailbox shows what was taken, by Message-ID.

    journal: whether such a mailbox can be searched. visible_within: who vouches for how soon it shows a message; without it an
    absence is no proof. `not_executed` holds replies **to the final dot** only: before it, what a reply means follows from RFC
    5321 and needs no promise (see `classify`).
    """
    return RetryContract(
        version=contract_version(
            "2026-11 imap" if journal else "2026-11",
            deadline=deadline,
            flight=max_in_flight.value,
            seen=None if visible_within is None else visible_within.value,
        ),
        verified_on=VERIFIED_ON,
        source="RFC 5321, 4.2.5, 4.3.2 and 6.1; RFC 1047; RFC 3501, 6.4.4",
        deadline=deadline,
        max_in_flight=max_in_flight,
        marker=Marker(where="Message-ID", readable_back=journal),
        lookup=Lookup(by="Message-ID", consistency=Consistency.EVENTUAL, visible_within=visible_within) if journal else None,
        not_executed=frozenset(not_executed_at_dot),
        account_faults=AUTH_FAULTS,
        again_means="the recipient gets the same email twice",
    )
