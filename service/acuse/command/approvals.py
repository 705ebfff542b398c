"""`acuse approvals`: list, show, approve, deny, revoke and grant, each with a name and a reason."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal, InvalidOperation

from sqlalchemy import Connection, Engine

from acuse.approval import ApprovalRecord, Approvals, ApprovalState, Decision
from acuse.command.database import add_database, database
from acuse.command.person import add_person, name_of
from acuse.command.span import span
from acuse.errors import InvalidField
from acuse.store.approval import FIND, GET, find_values, get_values, record_of, records_of
from acuse.store.caller import run

__all__ = ["ApprovalsCommand", "approvals"]

COLUMNS = "{:<36} {:<10} {:<24} {:<20} {:<23} {}"


class ApprovalsCommand:
    """The sub-command `approvals`."""

    name = "approvals"
    help = "what waits for a person's yes or no; approve it, deny it, take an approval back, grant one for a pattern"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add list, show, approve, deny, revoke and grant."""
        add_database(parser)
        acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
        _listing(acts.add_parser("list", help="approvals, newest first; without --state those that wait for a decision"))
        showing = acts.add_parser("show", help="every fact, and the payload as it was asked for")
        showing.add_argument("approval")
        showing.add_argument("--json", action="store_true")
        for act, text in _ACTS.items():
            one = acts.add_parser(act, help=text)
            one.add_argument("approval")
            add_person(one)
            if act == "approve":
                one.add_argument(
                    "--for", dest="length", metavar="SPAN", help="how long it lasts from now, like 90m (default: as asked)"
                )
        _granting(acts.add_parser("grant", help="allow every effect of an action whose target fits, within limits"))

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what was asked."""
        with database(arguments, "acuse approvals") as engine:
            match arguments.act:
                case "list":
                    return _list(engine, arguments)
                case "show":
                    return _show(engine, arguments)
                case "grant":
                    return _grant(engine, arguments)
                case "revoke":
                    return _revoke(engine, arguments)
                case _:
                    return _decide(engine, arguments)


_ACTS = {
    "approve": "yes: let it be sent",
    "deny": "no: what waits for it is rejected",
    "revoke": "take it back: nothing more is sent under it; what is in the air may still take effect",
}


def _listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=[*ApprovalState, "any"], default=ApprovalState.PENDING.value)
    parser.add_argument("--tenant")
    parser.add_argument("--workflow")
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--before", metavar="APR", help="the next page: the last id of this one")
    parser.add_argument("--json", action="store_true")


def _granting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", help="with its version: ticket.create.v1")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--target", help="this one only (default: every target)")
    where.add_argument("--target-prefix", metavar="PREFIX", help="those that begin with it")
    parser.add_argument("--tenant", default="default")
    parser.add_argument("--max-uses", type=int, metavar="N", help="for so many operations")
    parser.add_argument("--max-sum", metavar="FIELD=AMOUNT", help="as long as this field of their payloads adds up to no more")
    parser.add_argument("--for", dest="length", metavar="SPAN", help="a number with s, m, h or d: 90m")
    add_person(parser)


def _list(engine: Engine, arguments: argparse.Namespace) -> int:
    state = None if arguments.state == "any" else arguments.state
    asked = {"state": state, "workflow": arguments.workflow, "before": arguments.before}
    # One more than is shown, to know whether there is a next page.
    values = find_values(arguments.tenant, limit=arguments.limit, **asked)
    with engine.connect() as connection:
        found = records_of(run(connection, FIND, {**values, "limit": arguments.limit + 1}))
    shown = found[: arguments.limit]
    if arguments.json:
        print(json.dumps([asdict(one) for one in shown], indent=2, default=str))
        return 0
    print(COLUMNS.format("approval", "state", "action", "target", "until", "why"))
    for one in shown:
        print(COLUMNS.format(one.approval_id, one.state, one.action, _target(one), _clock(one.expires_at), _why(one)).rstrip())
    if len(found) > len(shown):
        print(f"more: acuse approvals list --before {shown[-1].approval_id}", file=sys.stderr)
    return 0


def _show(engine: Engine, arguments: argparse.Namespace) -> int:
    with engine.connect() as connection:
        found = _read(connection, arguments.approval)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2, default=str))
        return 0
    for name, value in asdict(found).items():
        if value is not None and name != "payload":
            print(f"{name:<20} {value}")
    if found.payload is not None:
        print(f"\npayload\n{_visible(json.dumps(found.payload, indent=2, ensure_ascii=False))}")
    return 0


def _decide(engine: Engine, arguments: argparse.Namespace) -> int:
    length = getattr(arguments, "length", None)
    with engine.begin() as connection:
        found = _read(connection, arguments.approval)
        decision = Approvals(tenant=found.tenant).decide(
            connection,
            found.approval_id,
            arguments.act == "approve",
            by=name_of(arguments),
            reason=arguments.reason,
            expires_in=None if length is None else span(length, "for"),
        )
    print(_said(decision))
    return 0 if decision.won else 1


def _said(decision: Decision) -> str:
    if not decision.won:
        when = f"{decision.decided_at:%Y-%m-%d %H:%M:%S}Z"
        was = f"{decision.approval_id} was {decision.state} already, by {decision.decided_by} at {when}"
        return f"{was}; your answer changed nothing"
    return f"{decision.approval_id} is {decision.state}; what waits for it is {'sent' if decision.approved else 'rejected'}"


def _revoke(engine: Engine, arguments: argparse.Namespace) -> int:
    with engine.begin() as connection:
        tenant = _read(connection, arguments.approval).tenant
        revoking = Approvals(tenant=tenant)
        in_the_air = revoking.revoke(connection, arguments.approval, by=name_of(arguments), reason=arguments.reason)
        found = revoking.get(connection, arguments.approval)
    if found.state is not ApprovalState.REVOKED:
        print(f"{found.approval_id} is {found.state} already: there is nothing to take back")
        return 1
    print(f"{found.approval_id} is revoked; nothing more is sent under it")
    for operation in in_the_air:
        print(f"{operation} is in the air and may still take effect: acuse operations show {operation}")
    return 0


def _grant(engine: Engine, arguments: argparse.Namespace) -> int:
    with engine.begin() as connection:
        approval = Approvals(tenant=arguments.tenant).grant_pattern(
            connection,
            arguments.action,
            by=name_of(arguments),
            reason=arguments.reason,
            target=arguments.target,
            target_prefix=arguments.target_prefix,
            max_uses=arguments.max_uses,
            max_sum=None if arguments.max_sum is None else _sum(arguments.max_sum),
            expires_in=None if arguments.length is None else span(arguments.length, "for"),
        )
    print(approval)
    return 0


def _read(connection: Connection, approval: str) -> ApprovalRecord:
    """Read an approval of any tenant, as operators do."""
    return record_of(approval, run(connection, GET, get_values(approval, None)))


def _sum(text: str) -> tuple[str, Decimal]:
    field, _, amount = text.partition("=")
    try:
        return field, Decimal(amount)
    except InvalidOperation:
        raise InvalidField(field="max_sum", reason="must be a field of the payload and an amount, like amount=500.00") from None


def _target(one: ApprovalRecord) -> str:
    return one.target or f"{one.target_prefix or ''}*"


def _clock(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"


def _why(one: ApprovalRecord) -> str:
    if one.state is ApprovalState.REVOKED:
        return f"{one.revoked_by}: {one.revoke_reason}"
    if one.decided_by is not None:
        return f"{one.decided_by}: {one.reason}" if one.reason else one.decided_by
    return one.request_reason or ""


def _visible(text: str) -> str:
    """Return a text in which nothing hides: whoever approves has to see what a model wrote, and no more than that."""
    return "".join(one if one.isprintable() or one == "\n" else f"\\u{ord(one):04x}" for one in text)


approvals = ApprovalsCommand()
