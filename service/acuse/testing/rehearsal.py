"""Carrying operations out in a test: the steps of a worker in their order, at once, with a provider that follows a script."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from uuid import UUID

from acuse.protocol import NotSent, Retry, RetryContract, State, account_rest, come_again, decide
from acuse.store.claim import Claimed
from acuse.testing.book import Book
from acuse.testing.message import HostMessage
from acuse.testing.promises import Promises
from acuse.testing.provider import Provider

__all__ = ["Rehearsal"]

_MOST_STEPS: Final = 100_000
"""Operations taken in one run; a run that needs more does not come to rest."""


class Rehearsal:
    """Works like the relay, the recover loop and a worker in one, one operation after another, in the order of staging."""

    def __init__(self, book: Book, promises: Promises) -> None:
        self._book = book
        self._promises = promises
        self.provider = Provider(promises)
        self._steps = 0

    def run(self, during: timedelta) -> Iterator[HostMessage]:
        """Carry out what is due, and what comes due `during` the time that passes. Yields what the host's actors are told."""
        book, left, self._steps = self._book, during, 0
        told = {message.message_id for message in book.messages() if message.told and message.available_at <= book.now}
        while True:
            yield from self._all_due(told)
            wait = book.next_due()
            if wait is None or wait > left:
                break
            wait = max(wait, timedelta(0))
            book.advance(wait)
            left -= wait
        if left:
            book.advance(left)

    def _all_due(self, told: set[str]) -> Iterator[HostMessage]:
        while True:
            yield from self._news(told)
            self._book.hand_over()
            taken = self._book.take()
            if not taken:
                return
            for operation in taken:
                self._carry(operation)
                yield from self._news(told)

    def _news(self, told: set[str]) -> Iterator[HostMessage]:
        for message in self._book.messages():
            if message.told and message.message_id not in told and message.available_at <= self._book.now:
                told.add(message.message_id)
                yield message

    def _carry(self, operation: UUID) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise RuntimeError(f"the effects did not come to rest within {_MOST_STEPS} steps; let less time pass in one run")
        claimed = self._book.claim(operation)
        if claimed is None:
            self._book.wake_behind(operation)
            return
        contract = self._promises.of(claimed.action)
        if claimed.state is State.PREPARED:
            self._attempt(claimed, contract, None, claimed.version)
        else:
            self._doubt(claimed, contract)

    def _doubt(self, claimed: Claimed, contract: RetryContract) -> None:
        book = self._book
        view, lookup = book.view(claimed.id), contract.lookup
        if lookup is not None and (view.operation.has_provider_id or not lookup.needs_provider_id):
            attempt = view.attempts[-1].number if view.attempts else 0
            book.record(claimed, attempt, self.provider.look_up(claimed, view.at), view.at)
            view = book.view(claimed.id)
        verdict = decide(view.operation, view.attempts, contract, view.findings, view.at)
        if isinstance(verdict, Retry):
            self._attempt(claimed, contract, verdict, view.version)
        elif not book.apply(claimed.id, view.version, verdict):
            book.give_back(claimed)

    def _attempt(self, claimed: Claimed, contract: RetryContract, verdict: Retry | None, version: int) -> None:
        book = self._book
        dispatched = book.dispatch(claimed, contract, None if verdict is None else verdict.basis, version)
        if not dispatched.open:
            return
        outcome = self.provider.send(claimed, book.now)
        if outcome is None:
            return
        pause = account_rest(outcome) if isinstance(outcome, NotSent) else None
        book.settle(claimed, dispatched, outcome, come_again(outcome, dispatched.attempt), pause)
