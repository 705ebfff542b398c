"""How a provider behaves to one attempt: what it does, what it answers, and what a look-up sees of it afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from acuse.protocol import Ambiguous, Concerns, NotSent, Outcome, Refused

__all__ = [
    "Always",
    "Behaviour",
    "Script",
    "accepted",
    "always",
    "found_different",
    "found_twice",
    "hangs",
    "key_conflict",
    "lagging",
    "locked_out",
    "lost_reply",
    "not_sent",
    "rate_limited",
    "refused",
    "refused_for_key",
    "refused_unheard",
    "vanished",
]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One attempt at the provider.

    answer: what comes back; None is a receipt for what the provider made. copies: how many effects it leaves there.
    ours: whether their content is what was sent. late: a look-up shows them only when its lag has passed.
    remembers: the provider keeps a record that it refused. returns: whether the worker comes back from the call at all.
    """

    name: str
    answer: Outcome | None = None
    copies: int = 0
    ours: bool = True
    late: bool = False
    remembers: bool = False
    returns: bool = True

    def __call__(
        self, code: str | None = None, reason: str | None = None, *, retry_after: timedelta | None = None
    ) -> "Behaviour":
        """The same behaviour with an answer in other words: `refused("case_closed", "the case is closed")`.

        Raises `TypeError` where the answer has no such word.
        """
        said = {"code": code, "reason": reason, "retry_after": retry_after}
        words = {name: value for name, value in said.items() if value is not None}
        if not words or self.answer is None or not all(hasattr(self.answer, name) for name in words):
            raise TypeError(f"{self.name} cannot be told {', '.join(words) or 'nothing'}; use it as it is, without calling it")
        return replace(self, answer=replace(self.answer, **words))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return self.name


_CLOSED = "the connection closed after the request"

accepted = Behaviour("accepted", copies=1)
"""The provider does it and says so."""

refused = Behaviour("refused", Refused("refused", "the provider refused it"))
"""The provider says that it did nothing and will do nothing."""

refused_for_key = Behaviour("refused_for_key", Refused("refused", "the provider refused it", covers_key=True), remembers=True)
"""The same, and the answer speaks for every earlier attempt too."""

refused_unheard = Behaviour("refused_unheard", Ambiguous(_CLOSED), remembers=True)
"""The provider refuses, the answer is lost; a look-up shows the refusal."""

lost_reply = Behaviour("lost_reply", Ambiguous(_CLOSED), copies=1)
"""The provider does it, and the answer is lost."""

vanished = Behaviour("vanished", Ambiguous("no answer"))
"""The request is lost on its way; nobody knows that."""

found_twice = Behaviour("found_twice", Ambiguous(_CLOSED), copies=2)
"""The provider does it twice, and the answer is lost."""

found_different = Behaviour("found_different", Ambiguous(_CLOSED), copies=1, ours=False)
"""The provider makes something else of it, and the answer is lost."""

lagging = Behaviour("lagging", Ambiguous(_CLOSED), copies=1, late=True)
"""The provider does it, the answer is lost, and look-ups do not show it before their lag has passed."""

not_sent = Behaviour("not_sent", NotSent("connection refused"))
"""Nothing reaches the provider."""

rate_limited = Behaviour("rate_limited", NotSent("429", timedelta(seconds=60), concerns=Concerns.ACCOUNT))
"""The provider asks the whole account for a minute's patience."""

locked_out = Behaviour("locked_out", NotSent("401", account_fault=True))
"""The credentials do not work: the account rests, the effect is as it was."""

key_conflict = Behaviour("key_conflict", Ambiguous("the key was used with another body", review=True))
"""The provider knows the key with another body: a person must look."""

hangs = Behaviour("hangs", copies=1, returns=False)
"""The provider does it; the worker dies in the call. The operation is `dispatching` until its claim ends, a minute later."""


@dataclass(frozen=True, slots=True)
class Always:
    """Every attempt meets this, not only the next."""

    behaviour: Behaviour | Outcome


def always(behaviour: Behaviour | Outcome) -> Always:
    """Let every attempt meet `behaviour`: an outage that does not end by itself."""
    return Always(behaviour)


Script = Behaviour | Outcome | Always | Sequence[Behaviour | Outcome]
"""What an action's attempts meet: one for the next attempt, a list for one after the other; what comes after is accepted."""
