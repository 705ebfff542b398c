"""`acuse accounts`: list, pause, resume and limit. A paused account starts nothing new; what is in the air ends."""

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime

from sqlalchemy import Engine

from acuse.command.database import add_database, database
from acuse.command.person import add_person, name_of
from acuse.command.span import span
from acuse.errors import InvalidField
from acuse.store.account import AccountRecord, limit, pause, resume
from acuse.store.account import accounts as accounts_of

__all__ = ["AccountsCommand", "accounts"]

COLUMNS = "{:<16} {:<20} {:<10} {:<22} {:<16} {:<18} {}"


class AccountsCommand:
    """The sub-command `accounts`."""

    name = "accounts"
    help = "pause a provider's account, resume it, limit its calls, see which are paused or do not answer"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add list, pause, resume and limit."""
        add_database(parser)
        acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
        listing = acts.add_parser("list", help="accounts that were ever paused, limited or had failures")
        listing.add_argument("--json", action="store_true")
        pausing = acts.add_parser("pause", help="start nothing new there; what is in the air ends, and look-ups go on")
        _which(pausing)
        add_person(pausing)
        end = pausing.add_mutually_exclusive_group()
        end.add_argument(
            "--until", metavar="TIME", help="ISO 8601 with its offset: 2026-11-30T09:00+01:00 (default: until resumed)"
        )
        end.add_argument("--for", dest="length", metavar="SPAN", help="a number with s, m, h or d: 90m")
        _which(acts.add_parser("resume", help="let it go on; an open breaker lets its next probe through at once"))
        limiting = acts.add_parser("limit", help="how many calls it takes, of all workers together; replaces what was set before")
        _which(limiting)
        add_person(limiting)
        limiting.add_argument("--concurrent", type=int, metavar="N", help="calls at the same time")
        limiting.add_argument("--per-second", type=float, metavar="R", help="calls a second; 0.5 is one in two seconds")
        limiting.add_argument("--none", action="store_true", help="lift the limits")

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what was asked."""
        with database(arguments, "acuse accounts") as engine:
            match arguments.act:
                case "list":
                    return _list(engine, arguments)
                case "pause":
                    return _pause(engine, arguments)
                case "limit":
                    return _limit(engine, arguments)
                case _:
                    return _resume(engine, arguments)


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("provider", help="the first part of the action: ticket of ticket.create.v1")
    parser.add_argument("account", nargs="?", default="default", help="as the host named it (default: default)")


def _list(engine: Engine, arguments: argparse.Namespace) -> int:
    with engine.connect() as connection:
        found = accounts_of(connection)
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=2, default=datetime.isoformat))
        return 0
    print(COLUMNS.format("provider", "account", "state", "until", "by", "limits", "why"))
    for one in found:
        print(COLUMNS.format(*_row(one)).rstrip())
    return 0


def _row(one: AccountRecord) -> tuple[str, ...]:
    limits = _limits(one)
    if one.paused:
        until = "it is resumed" if one.paused_until is None else f"{one.paused_until:%Y-%m-%d %H:%M:%S}Z"
        return one.provider, one.account, "paused", until, one.paused_by or "", limits, one.pause_reason or ""
    if one.opened_at is not None and one.open_until is not None:
        why = f"breaker: no answer since {one.opened_at:%Y-%m-%d %H:%M:%S}Z, {one.failures} failures in a row"
        return one.provider, one.account, "breaker", f"{one.open_until:%Y-%m-%d %H:%M:%S}Z", "acuse", limits, why
    why = f"{one.failures} failures in a row" if one.failures else ""
    return one.provider, one.account, "ok", "", "", limits, why or (one.limit_reason or "")


def _limits(one: AccountRecord) -> str:
    at_once = None if one.max_concurrent is None else f"{one.max_concurrent} at once"
    per_second = None if one.max_per_second is None else f"{one.max_per_second:g}/s"
    return ", ".join(filter(None, (at_once, per_second)))


def _pause(engine: Engine, arguments: argparse.Namespace) -> int:
    until = _until(arguments.until, arguments.length, datetime.now(UTC))
    with engine.begin() as connection:
        pause(connection, arguments.provider, arguments.account, by=name_of(arguments), reason=arguments.reason, until=until)
    end = "it is resumed" if until is None else f"{until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    print(f"{arguments.provider}/{arguments.account} is paused until {end}; what is in the air ends by itself")
    return 0


def _resume(engine: Engine, arguments: argparse.Namespace) -> int:
    with engine.begin() as connection:
        was = resume(connection, arguments.provider, arguments.account)
    if not was:
        print(f"{arguments.provider}/{arguments.account} was not paused: see acuse accounts list")
        return 1
    print(f"{arguments.provider}/{arguments.account} goes on; what waited is sent within about half a minute")
    return 0


def _limit(engine: Engine, arguments: argparse.Namespace) -> int:
    given = arguments.concurrent is not None or arguments.per_second is not None
    if given is arguments.none:
        raise InvalidField(field="limit", reason="give --concurrent N, --per-second R or both; or --none to lift them")
    with engine.begin() as connection:
        limit(
            connection,
            arguments.provider,
            arguments.account,
            by=name_of(arguments),
            reason=arguments.reason,
            concurrent=arguments.concurrent,
            per_second=arguments.per_second,
        )
    print(f"{arguments.provider}/{arguments.account}: {_said(arguments)}")
    return 0


def _said(arguments: argparse.Namespace) -> str:
    if arguments.none:
        return "no limits any more"
    at_once = None if arguments.concurrent is None else f"at most {arguments.concurrent} calls at once"
    per_second = None if arguments.per_second is None else f"at most {arguments.per_second:g} calls a second"
    return " and ".join(filter(None, (at_once, per_second)))


def _until(until: str | None, length: str | None, now: datetime) -> datetime | None:
    """Return the end of a pause. Raises `InvalidField` for what cannot be read, and for a moment that is past."""
    if length is not None:
        return now + span(length, "for")
    if until is None:
        return None
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise InvalidField(field="until", reason="must be a time like 2026-11-30T09:00+01:00") from None
    if moment.utcoffset() is None:
        raise InvalidField(field="until", reason="has no offset: write 2026-11-30T09:00+01:00, or end it with Z")
    if moment <= now:
        raise InvalidField(field="until", reason="is past")
    return moment


accounts = AccountsCommand()
