"""The three axes of the matrix, and the windows that decide what must come of a strike."""

from enum import StrEnum, unique

__all__ = ["Boundary", "Contract", "Fault", "Window"]


class Boundary(StrEnum):
    """Where in an operation's life it is struck."""

    STAGE_COMMIT = "stage commit"
    RELAY_PUSH = "relay push"
    RELAY_COMMIT = "relay commit"
    BROKER_FETCH = "broker fetch"
    CLAIM = "claim"
    PREPARE = "prepare"
    DISPATCH_COMMIT = "dispatch commit"
    CONNECT = "connect"
    BYTES_SENT = "bytes sent"
    PROVIDER_APPLIED = "provider applied"
    REPLY_RECEIVED = "reply received"
    SETTLE_COMMIT = "settle commit"
    ACK = "ack"
    LOOK_UP = "look-up"
    EVIDENCE_COMMIT = "evidence commit"
    RELEASE = "release of dependants"
    SETTLED_MESSAGE = "settled message"


class Fault(StrEnum):
    """What strikes."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"
    CUT = "connection cut"
    COMMIT_REPLY_LOST = "reply to COMMIT lost"
    DATABASE_RESTART = "database restart"
    REDIS_RESTART = "Redis restart"
    REDIS_WIPED = "Redis wiped"
    REDIS_FULL = "Redis out of memory"
    PROVIDER_STALLS = "provider stalls past the deadline"
    CLOCK = "worker clock ±10 min"
    DELIVERED_TWICE = "delivered to two processes at once"
    FORGED = "forged message"
    STALLED_WORKER = "stalled worker wakes after its claim"


class Contract(StrEnum):
    """What the provider promises about repeating and looking up."""

    KEYED = "keyed"
    KEY_EXPIRED = "keyed, window closed"
    UPSERT_GUARDED = "upsert with precondition"
    UPSERT = "upsert without"
    STRONG = "strong look-up"
    LAG_BOUND = "lagging look-up with bound"
    LAG_UNBOUND = "lagging look-up without bound"
    TOKEN = "one-time token"  # noqa: S105  # a kind of contract, not a secret
    NONE = "none"


@unique
class Window(StrEnum):
    """What is true when the strike lands; with the contract it decides what must come of it."""

    BEFORE_DISPATCH = "nothing may have been sent, and the ledger knows it"
    KNOWN_UNSENT = "dispatched, and the worker lives to say that nothing left"
    PERHAPS_SENT = "dispatched, nothing left, and nobody is there to say so"
    PERHAPS_SENT_ALIVE = "the call got no answer and nothing arrived; the key's window is still open"
    SENT = "the request arrived, was not carried out, and nobody can say so"
    SENT_ALIVE = "the request arrived and was not carried out, the call got no answer; the key's window is still open"
    APPLIED = "the effect is there and no receipt was kept"
    APPLIED_ALIVE = "the effect is there, the call got no answer; the key's window is still open"
    HELD_LONG = "the provider is slow: its answer comes before the deadline, or after it"
    TOLD_LATE = "the effect is there, and a receipt comes after the claim"
    UNSENT_LATE = "nothing left, and the worker says so after its claim"
    OVERTAKEN = "a repeat is decided on, and then somebody else changes the target"
    REFUSED = "the provider refused, and the word is kept, or its worker lives to keep it"
    REFUSED_LATE = "the provider refused, and the word comes after the claim"
    RECEIPT = "the receipt is kept, or its worker lives to keep it"
