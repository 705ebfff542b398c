"""What must be true when bytes leave, and when everything has come to rest. Everything is read from outside."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

from acuse.identifier import uuid_of
from acuse.protocol import By, State, legal
from acuse_adapters.explore.cast import Cast
from acuse_adapters.explore.ground import Ground

__all__ = ["Judge"]

_Row = Mapping[str, Any]

_SENT: Final = """
select o.*, a.dispatched_at, a.basis, a.fence as attempt_fence, p.expires_at,
       (select count(*) from acuse.dependency d left join acuse.operation n on n.id = d.needs
         where d.operation_id = o.id and n.status is distinct from 'confirmed') as unmet
  from acuse.operation o
  join lateral (select * from acuse.attempt a where a.operation_id = o.id order by number desc limit 1) a on true
  left join acuse.approval p on p.id = o.approval_id
 where o.id = %s
"""
_USED: Final = """
select a.*, (select count(*) from acuse.operation o where o.approval_id = a.id and o.charged) as charged from acuse.approval a
"""
_CHAIN: Final = "select id, seq, status from acuse.operation where ordering_key = %s and id <> %s"
_NEXT: Final = """
select max(least(due_at, claim_until, handed_at + interval '31 s')) as next from acuse.operation
 where status not in ('confirmed', 'rejected') and held is null
"""


class Judge:
    """Accuses whoever breaks a promise of the ledger."""

    def __init__(self, ground: Ground, cast: Cast) -> None:
        self._ground = ground
        self._cast = cast
        self._turns = cast.turns
        self._commits = 0

    def sent(self, operation: str) -> None:
        """Judge bytes that leave for an operation."""
        [o] = self._ground.ask(_SENT, uuid_of(operation, prefix="op", field="operation"))
        name = self._turns.names[operation]
        wish, judged = self._cast.wishes[name], self._turns.judged.get(operation, 0)
        if o["status"] != "confirmed" and (o["status"] != "dispatching" or o["fence"] != o["attempt_fence"]):
            self._accuse(name, f"was sent while it is {o['status']}, by a worker that has no right to it")
        if o["unmet"]:
            self._accuse(name, "was sent before what it needs was confirmed")
        for what, moment in (("its approval had expired", o["expires_at"]), ("its not_after had passed", o["not_after"])):
            if moment is not None and moment <= o["dispatched_at"]:
                self._accuse(name, f"was dispatched when {what}")
        if self._cast.committed.get(f"revoked {name}", judged + 1) <= judged:
            self._accuse(name, "was dispatched after its approval was revoked")
        if wish.workflow and self._cast.committed.get("workflow", judged + 1) <= judged:
            self._accuse(name, "was dispatched after its workflow was cancelled")
        if o["ordering_key"] is not None and o["status"] == "dispatching":
            self._in_turn(name, o, judged)

    def _in_turn(self, name: str, o: _Row, judged: int) -> None:
        for other in self._ground.ask(_CHAIN, o["ordering_key"], o["id"]):
            known = self._turns.names[f"op_{other['id'].hex}"]
            if other["status"] in ("dispatching", "unknown"):
                self._accuse(name, f"was sent while {known} of its chain is {other['status']}")
            earlier = other["status"] == "prepared" and other["seq"] < o["seq"]
            if earlier and o["basis"] == "first" and self._cast.committed.get(known, judged + 1) < judged:
                self._accuse(name, f"was sent before {known} of its chain")

    # at rest

    def outbox(self) -> bool:
        """Whether something is to be relayed."""
        return bool(self._ground.ask("select 1 from acuse.outbox_message limit 1"))

    def next_moment(self) -> float | None:
        """In how many seconds every operation wants something that ever does by itself."""
        [row] = self._ground.ask(_NEXT)
        return None if row["next"] is None else max((row["next"] - self._turns.clock.moment).total_seconds(), 0.0)

    def restless(self) -> list[str]:
        """The operations that have not come to rest."""
        rows = self._ground.ask("select * from acuse.operation where status not in ('confirmed', 'rejected') order by seq")
        return [self._name(o) for o in rows if not self._rests(o, rows)]

    def _rests(self, o: _Row, pending: Sequence[_Row]) -> bool:
        if o["held"] is not None:
            return True
        if o["waiting"] == "ordering":
            chain = [b for b in pending if b["ordering_key"] == o["ordering_key"] and b["id"] != o["id"]]
            return any(b["status"] in ("dispatching", "unknown") or b["seq"] < o["seq"] for b in chain)
        if o["waiting"] == "dependency":
            return any(self._name(b) in self._cast.wishes[self._name(o)].after for b in pending)
        return False

    def rest(self) -> None:
        """Judge the end of a schedule."""
        attempts, evidence = self._history("attempt", "number"), self._history("evidence", "version")
        entries = self._history("ledger", "version")
        for o in self._ground.ask("select * from acuse.operation order by seq"):
            name = self._name(o)
            self._end(name, o)
            self._believed(
                name, o, [a["outcome"] for a in attempts.get(o["id"], [])] + [e["finding"] for e in evidence.get(o["id"], [])]
            )
            self._count(name, o, attempts.get(o["id"], []))
            self._explained(name, o, entries.get(o["id"], []))
            self._told(name, o)
        self._budgets()

    def _history(self, table: str, order: str) -> dict[Any, list[_Row]]:
        rows = self._ground.ask(f"select * from acuse.{table} order by operation_id, {order}")  # noqa: S608  # our own words
        return {key: list(group) for key, group in groupby(rows, key=lambda row: row["operation_id"])}

    def _end(self, name: str, o: _Row) -> None:
        if o["status"] == "confirmed" and not self._cast.shop.effects_of(f"op_{o['id'].hex}"):
            self._accuse(name, "is confirmed, and it never happened")
        self._nothing_behind(name, o)
        if o["status"] not in ("confirmed", "rejected") and not o["reason"] and not o["held"] and not o["waiting"]:
            self._accuse(name, f"is {o['status']}, and nothing says why")

    def _nothing_behind(self, name: str, o: _Row) -> None:
        operation = f"op_{o['id'].hex}"
        if o["status"] in ("rejected", "prepared"):
            if self._cast.shop.effects_of(operation):
                self._accuse(name, f"is {o['status']}, and it happened")
            if self._cast.shop.may_still_happen(operation):
                self._accuse(name, f"is {o['status']}, and it may still happen")

    def _believed(self, name: str, o: _Row, said: Sequence[str | None]) -> None:
        if o["status"] != "confirmed" and ("accepted" in said or "found" in said):
            self._accuse(name, f"is {o['status']}, although there is a receipt or a finding that it happened")

    def _count(self, name: str, o: _Row, attempts: Sequence[_Row]) -> None:
        doubtful = sum(a["doubtful"] for a in attempts)
        if len(attempts) != o["attempts"]:
            self._accuse(name, f"counts {o['attempts']} attempts and has {len(attempts)}")
        if o["status"] in ("dispatching", "unknown") and not doubtful <= o["doubts"] <= doubtful + 1:
            self._accuse(name, f"counts {o['doubts']} doubts, and {doubtful} attempts are in doubt")
        fences = [a["fence"] for a in attempts]
        if sorted(set(fences)) != fences:
            self._accuse(name, f"has attempts with the tokens {fences}")

    def _explained(self, name: str, o: _Row, entries: Sequence[_Row]) -> None:
        if not entries or (entries[0]["kind"], entries[0]["from_status"]) != ("staged", None):
            self._accuse(name, "has no birth in its ledger")
            return
        for earlier, later in pairwise(entries):
            if later["from_status"] != earlier["to_status"]:
                self._accuse(name, f"became {earlier['to_status']}, and then {later['from_status']} without an entry")
        for entry in entries:
            source, target = entry["from_status"], State(entry["to_status"])
            if source != target and not legal(None if source is None else State(source), target, By(entry["by"])):
                self._accuse(name, f"went from {source} to {target} by {entry['by']}, which is no arrow")
        if entries[-1]["to_status"] != o["status"]:
            self._accuse(name, f"is {o['status']}, and its ledger ends with {entries[-1]['to_status']}")

    def _told(self, name: str, o: _Row) -> None:
        if o["on_settled"] is None or o["status"] not in ("confirmed", "rejected"):
            return
        said = [one for one in self._cast.broker.told.values() if one["operation_id"] == f"op_{o['id'].hex}"]
        ends = [one for one in said if one["state"] == o["status"]]
        if len(ends) != 1:
            self._accuse(name, f"is {o['status']}, and the host was told so by {len(ends)} messages")

    def _budgets(self) -> None:
        for a in self._ground.ask(_USED):
            if a["used"] != a["charged"] or (a["max_uses"] is not None and a["used"] > a["max_uses"]):
                self._turns.accuse(f"an approval is used {a['used']} times by {a['charged']} operations, of {a['max_uses']}")

    def step(self) -> None:
        """Judge what happened: each effect once, and once more for each risk that was accepted; what is settled stands."""
        for name, operation in self._cast.ids.items():
            happened = len(self._cast.shop.effects_of(operation))
            if happened > 1 + self._cast.accepted.get(name, 0):
                self._accuse(name, f"happened {happened} times")
        if self._turns.commits != self._commits and self._cast.shop.sent:
            self._commits = self._turns.commits
            for o in self._ground.ask(
                "select id, status from acuse.operation where status in ('prepared', 'rejected') order by id"
            ):
                self._nothing_behind(self._name(o), o)

    def _name(self, o: _Row) -> str:
        return self._turns.names[f"op_{o['id'].hex}"]

    def _accuse(self, name: str, what: str) -> None:
        said = f"{name} {what}"
        if said not in self._turns.wrong:
            self._turns.accuse(said)
