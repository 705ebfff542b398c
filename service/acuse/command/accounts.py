"""`acuse accounts`: list, pause and resume. A paused account starts nothing new; what is in the air ends."""

import argparse
import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from acuse.command.database import add_database, database
from acuse.command.person import add_person, name_of
from acuse.errors import InvalidField
from acuse.store.account import AccountRecord, pause, resume
from acuse.store.account import accounts as accounts_of

__all__ = ["AccountsCommand", "accounts"]

COLUMNS = "{:<16} {:<20} {:<10} {:<22} {:<16} {}"

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class AccountsCommand:
    """The sub-command `accounts`."""

    name = "accounts"
    help = "pause a provider's account, resume it, see which are paused"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add list, pause and resume."""
        add_database(parser)
        acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
        listing = acts.add_parser("list", help="accounts that were ever paused or had failures")
        listing.add_argument("--json", action="store_true")
        pausing = acts.add_parser("pause", help="start nothing new there; what is in the air ends, and look-ups go on")
        _which(pausing)
        add_person(pausing)
        end = pausing.add_mutually_exclusive_group()
        end.add_argument(
            "--until", metavar="TIME", help="ISO 8601 with its offset: 2026-11-30T09:00+01:00 (default: until resumed)"
        )
        end.add_argument("--for", dest="length", metavar="SPAN", help="a number with s, m, h or d: 90m")
        _which(acts.add_parser("resume", help="let it go on"))

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what was asked."""
        with database(arguments, "acuse accounts") as engine:
            match arguments.act:
                case "list":
                    return _list(engine, arguments)
                case "pause":
                    return _pause(engine, arguments)
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
    print(COLUMNS.format("provider", "account", "state", "until", "by", "why"))
    for one in found:
        print(COLUMNS.format(*_row(one)).rstrip())
    return 0


def _row(one: AccountRecord) -> tuple[str, ...]:
    if not one.paused:
        return one.provider, one.account, "open", "", "", ""
    until = "it is resumed" if one.paused_until is None else f"{one.paused_until:%Y-%m-%d %H:%M:%S}Z"
    return one.provider, one.account, "paused", until, one.paused_by or "", one.pause_reason or ""


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


def _until(until: str | None, length: str | None, now: datetime) -> datetime | None:
    """Return the end of a pause. Raises `InvalidField` for what cannot be read, and for a moment that is past."""
    if length is not None:
        found = re.fullmatch(r"([1-9]\d{0,5})([smhd])", length)
        if found is None:
            raise InvalidField(field="for", reason="must be a number with s, m, h or d, like 90m")
        return now + timedelta(**{_UNITS[found[2]]: int(found[1])})
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
