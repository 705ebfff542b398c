"""`acuse incidents`: list and close. Closing says that people dealt with it; it undoes nothing."""

import argparse
import json
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Engine

from acuse.command.database import add_database, database
from acuse.command.person import add_person, name_of
from acuse.store.incident import close_incident
from acuse.store.incident import incidents as incidents_of

__all__ = ["IncidentsCommand", "incidents"]

COLUMNS = "{:<36} {:<26} {:<36} {:<20} {:<22} {}"


class IncidentsCommand:
    """The sub-command `incidents`."""

    name = "incidents"
    help = "what was found that contradicts what is settled; close what was dealt with"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add list and close."""
        add_database(parser)
        acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
        listing = acts.add_parser("list", help="open incidents, newest first")
        listing.add_argument("--all", action="store_true", help="those that were closed, too")
        listing.add_argument("--json", action="store_true")
        closing = acts.add_parser("close", help="people have dealt with it; it stays on record")
        closing.add_argument("incident", help="its id, from the list")
        add_person(closing)

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what was asked."""
        with database(arguments, "acuse incidents") as engine:
            if arguments.act == "list":
                return _list(engine, arguments)
            with engine.begin() as connection:
                close_incident(connection, arguments.incident, by=name_of(arguments), reason=arguments.reason)
        print(f"{arguments.incident} is closed")
        return 0


def _list(engine: Engine, arguments: argparse.Namespace) -> int:
    with engine.connect() as connection:
        found = incidents_of(connection, closed=arguments.all)
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=2, default=datetime.isoformat))
        return 0
    print(COLUMNS.format("incident", "kind", "operation", "opened", "closed by", "detail"))
    for one in found:
        detail = " ".join(f"{key}={value}" for key, value in one.detail.items())
        opened = f"{one.opened_at:%Y-%m-%d %H:%M:%S}"
        print(COLUMNS.format(one.id, one.kind, one.operation_id, opened, one.closed_by or "", detail).rstrip())
    return 0


incidents = IncidentsCommand()
