"""What a reply or a failure over SMTP means. Pure.

The message takes effect when the server has the final dot, so everything turns on whether that dot may have left.

    before the final dot has left   2yz, 3yz   go on
                                    4yz        not sent
                                    5yz        MAIL, RCPT, DATA: refused; greeting, EHLO, TLS, AUTH: not sent, account fault
                                    lost       not sent: what was not ended by a dot is thrown away (RFC 5321, 4.1.1.4)
    after it has left               2yz        accepted: the server answers for the message (RFC 5321, 4.2.5)
                                    5yz        refused: it must not deliver it (ibid.)
                                    4yz        ambiguous, although the same sentence forbids to deliver it: servers were seen
                                               that store the message, fail at what comes next, and reply 451. A team that
                                               knows its server lists the code in the contract's `not_executed`.
                                    lost       ambiguous (RFC 1047 is about this moment)
"""

from enum import StrEnum
from typing import Final

from acuse.protocol import Accepted, Ambiguous, Concerns, NotSent, Outcome, Receipt, Refused, RetryContract
from acuse_adapters.port import storable

__all__ = ["Step", "at_dot", "before_dot", "lost"]


_CLOSING: Final = 421


class Step(StrEnum):
    """How far a delivery came."""

    CONNECT = "connecting"  # with EHLO, STARTTLS and AUTH
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"  # and the message, up to its last line
    DOT = "the final dot"  # it may have left


def before_dot(contract: RetryContract, step: Step, code: int, text: str) -> NotSent | Refused:
    """Return what a reply means that does not let the delivery go on. code: -1 for a line that is no reply."""
    reason = f"{step}: {code} {storable(text)}".rstrip()
    if code in contract.account_faults:
        return NotSent(reason, account_fault=True)
    if not 500 <= code <= 599:
        # A mailbox that is busy or greylists says nothing of the server; 421 closes the whole connection.
        about_mailbox = step is Step.RCPT and 400 <= code <= 499 and code != _CLOSING
        return NotSent(reason, concerns=Concerns.OPERATION if about_mailbox else Concerns.PROVIDER)
    return NotSent(reason, account_fault=True) if step is Step.CONNECT else Refused(str(code), reason)


def at_dot(contract: RetryContract, code: int, text: str, message_id: str) -> Outcome:
    """Return what the reply to the final dot means."""
    said = storable(text)
    reason = f"{Step.DOT}: {code} {said}".rstrip()
    if 200 <= code <= 299:
        return Accepted(Receipt(message_id, provider_request_id=said or None))
    if code in contract.account_faults:
        return NotSent(reason, account_fault=True)
    if code in contract.not_executed:
        return NotSent(reason)
    return Refused(str(code), reason) if 500 <= code <= 599 else Ambiguous(reason)


def lost(step: Step, error: BaseException) -> NotSent | Ambiguous:
    """Return what a lost connection, or the end of the deadline, means."""
    name = "the deadline passed" if type(error) is TimeoutError else type(error).__name__
    if step is Step.DOT:
        return Ambiguous(f"{name} after {step} may have left")
    return NotSent(f"{name} while {step}" if step is Step.CONNECT else f"{name} at {step}, before the final dot")
