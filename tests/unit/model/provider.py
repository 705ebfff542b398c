"""A provider that keeps to its contract by the letter, and is as unhelpful as the contract allows.

It may apply at once or as late as deadline + max_in_flight after the dispatch, or never; refuse, also a repetition of what it
applied; answer "not executed"; forget a key a margin early; show an effect as late as the contract allows, or never. Whether its
answer reaches anybody is up to our side: an answer may lie unread for ever. Windows are half open: at the tick of its end, a
request can no longer act and a key is forgotten.
"""

from collections.abc import Iterator

from acuse.protocol import Consistency, Replays, RetryContract, State
from model.world import NEVER, Action, Look, Remembered, Request, Step, World

__all__ = ["Provider"]


class Provider:
    """The other side of one contract."""

    def __init__(self, contract: RetryContract) -> None:
        self.contract = contract
        self.step = Step.of(contract)
        self.people_write = contract.natural_upsert is not None

    def tick(self, world: World) -> World:
        """Let one tick pass: what was on the wire for too long is gone, a key that is old enough is forgotten."""
        now, key = world.now + 1, world.key
        requests = tuple(self._aged(r, a.sent, now) for r, a in zip(world.requests, world.attempts, strict=True))
        if key is not None and key.says != "running" and now >= key.since + self.step.retention - self.step.margin:
            key = None
        return world._replace(now=now, requests=requests, key=key)

    def _aged(self, request: Request, sent: int, now: int) -> Request:
        over = now >= sent + self.step.deadline + self.step.in_flight
        return request._replace(stage="done") if request.stage == "wire" and over else request

    def may_end(self, world: World) -> bool:
        """Say whether time may pass: what runs must end before its bound."""
        bound = self.step.deadline + self.step.in_flight
        pairs = zip(world.requests, world.attempts, strict=True)
        return all(r.stage != "running" or world.now + 1 < a.sent + bound for r, a in pairs)

    def actions(self, world: World) -> Iterator[Action]:
        """Yield everything that the provider, or a person at the provider, may do now."""
        for number, request in enumerate(world.requests):
            if request.stage == "wire":
                yield from self._arrive(world, number, request)
            elif request.stage == "running":
                yield self._apply(world, number, request, "the provider applies")
        if self.people_write and world.changed_at == NEVER and world.attempts:
            changed = world._replace(target="theirs", changed_at=world.now)
            yield Action("a person overwrites the target with its marker", changed._replace(marker_gone=True))
            if world.target == "ours":
                yield Action("a person changes the target and leaves the marker", changed)

    def _arrive(self, world: World, number: int, request: Request) -> Iterator[Action]:
        got, key = request._replace(arrived=world.now), self.contract.key
        if key is not None and world.key is not None:
            yield from self._repeat(world, number, got, world.key)
            return
        upsert = self.contract.natural_upsert
        if upsert is not None and upsert.precondition is not None and request.target != world.target:
            yield self._answer(world, number, got, "refused", "the provider's precondition refuses")
            return
        yield self._apply(world, number, got, "the provider applies")
        if key is not None:
            locked = Remembered("running", world.now) if key.on_concurrent is not None else world.key
            running = self._with(world, number, got._replace(stage="running"))
            yield Action(f"attempt {number + 1} arrives and runs", running._replace(key=locked))
        yield self._answer(world, number, got, "not_sent", "the provider answers 429")
        yield self._refuse(world, number, got)

    def _repeat(self, world: World, number: int, got: Request, key: Remembered) -> Iterator[Action]:
        assert self.contract.key is not None
        match key.says:
            case "running":
                yield self._answer(world, number, got, "not_sent", "the provider says that the first still runs")
            case "refused":
                yield self._answer(world, number, got, self._refusal(), "the provider repeats its refusal")
            case _:
                says = "accepted" if self.contract.key.replays is not Replays.NOTHING else ""
                replayed = self._with(world, number, got._replace(stage="done", arrived=NEVER, answer=says))
                yield Action("the provider knows the key and does nothing", replayed)
                yield self._answer(world, number, got, "refused", "the provider refuses the repetition")

    def _refuse(self, world: World, number: int, got: Request) -> Action:
        action = self._answer(world, number, got, self._refusal(), "the provider refuses")
        key = self.contract.key
        if key is not None and key.replays is Replays.FIRST_ANSWER:
            return action._replace(world=action.world._replace(key=Remembered("refused", world.now)))
        return action

    def _refusal(self) -> str:
        return "refused_for_key" if self.contract.refusals_cover_key else "refused"

    def _answer(self, world: World, number: int, got: Request, answer: str, what: str) -> Action:
        heard = world.state is State.DISPATCHING and number == len(world.requests) - 1
        after = self._with(world, number, got._replace(stage="done", arrived=NEVER, answer=answer if heard else ""))
        return Action(f"{what} (attempt {number + 1})", after)

    def _apply(self, world: World, number: int, got: Request, what: str) -> Action:
        after = self._with(world, number, got._replace(stage="done", arrived=NEVER, answer="accepted"))
        first = world.now if world.applied_at == NEVER else world.applied_at
        if self.people_write:
            undone = world.overwrote or (world.effects > 0 and world.target == "theirs")
            after = after._replace(effects=1, target="ours", marker_gone=False, overwrote=undone, applied_at=first)
        else:
            after = after._replace(effects=world.effects + 1, applied_at=first)
        if self.contract.key is not None:
            after = after._replace(key=Remembered("accepted", got.arrived))
        return Action(f"{what} (attempt {number + 1})", after)

    def _with(self, world: World, number: int, request: Request) -> World:
        return world._replace(requests=(*world.requests[:number], request, *world.requests[number + 1 :]))

    def reads(self, world: World) -> set[Look]:
        """Return every answer that a look-up which starts now may give."""
        if self.contract.lookup is None:
            return set()
        answers = {self._seen(world)}
        if self.contract.lookup.consistency is Consistency.EVENTUAL:
            unseen = world
            if world.now <= world.changed_at + self.step.lag:
                before = "ours" if world.effects and world.applied_at <= world.changed_at else "original"
                unseen = world._replace(target=before, changed_at=NEVER, marker_gone=False)
                answers.add(self._seen(unseen))
            if world.effects and world.now <= world.applied_at + self.step.lag:
                blank = unseen if unseen.target == "theirs" else unseen._replace(target="original")
                answers.add(self._seen(blank._replace(effects=0)))
        if world.key is not None and world.key.says == "refused":
            answers.add(Look("refused", world.now, len(world.attempts)))
        return answers

    def _seen(self, world: World) -> Look:
        attempt = len(world.attempts)
        if world.effects and not world.marker_gone:
            kind = "differs" if world.target == "theirs" else "found"
            return Look(kind, world.now, attempt, world.effects)
        unchanged = not world.requests or world.target == world.requests[-1].target
        return Look("unchanged" if unchanged else "absent", world.now, attempt)
