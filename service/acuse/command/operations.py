"""`acuse operations`: list, show, explain, and the acts of an operator, each with a name and a reason."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from importlib.metadata import entry_points
from typing import Any

from sqlalchemy import Engine

from acuse.command.database import add_database, database
from acuse.command.explain import explain
from acuse.command.person import add_person, name_of
from acuse.errors import AcuseError
from acuse.ledger import Ledger
from acuse.protocol import RetryContract, State
from acuse.record import OperationRecord
from acuse.store.behind import waiting_behind
from acuse.store.review import Act, operate

__all__ = ["OperationsCommand", "operations"]

COLUMNS = "{:<36} {:<12} {:<24} {:<20} {:>8}  {}"


class OperationsCommand:
    """The sub-command `operations`."""

    name = "operations"
    help = "look at operations and settle what only a person can settle"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add list, show, explain and one sub-command per act."""
        add_database(parser)
        acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
        listing = acts.add_parser("list", help="operations, newest first")
        listing.add_argument("--state", action="append", choices=[state.value for state in State], help="repeatable")
        listing.add_argument("--held", action="store_true", help="only those that wait for a person")
        listing.add_argument("--provider")
        listing.add_argument("--tenant")
        listing.add_argument("--workflow")
        listing.add_argument("--limit", type=int, default=50)
        listing.add_argument("--before", metavar="OP", help="the next page: the last id of this one")
        listing.add_argument("--json", action="store_true")
        for name, text in (
            ("show", "every fact and the whole history"),
            ("explain", "what happened and what comes next, in sentences"),
        ):
            one = acts.add_parser(name, help=text)
            one.add_argument("operation")
            one.add_argument("--json", action="store_true")
        for act, text in _ACTS.items():
            one = acts.add_parser(act.value.replace("_", "-"), help=text)
            one.add_argument("operation")
            one.add_argument("--version", required=True, type=int, help="the record version that you saw (see show)")
            add_person(one)
            if act is Act.CONFIRM:
                one.add_argument("--result-id", required=True, help="the provider's id of what happened")

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what was asked."""
        with database(arguments, "acuse operations") as engine:
            match arguments.act:
                case "list":
                    return _list(engine, arguments)
                case "show":
                    return _show(engine, arguments)
                case "explain":
                    return _explain(engine, arguments)
                case act:
                    return _operate(engine, Act(act.replace("-", "_")), arguments)


_ACTS = {
    Act.CONFIRM: "it happened: give the provider's id",
    Act.REJECT: "it did not happen and shall not",
    Act.RECHECK: "look again now",
    Act.ACCEPT_RISK: "repeat it although it may happen twice",
    Act.SUSPECT: "it may have been sent (after a restore): treat it as unknown",
    Act.RESUME: "let a held, prepared operation go on",
}


def _list(engine: Engine, arguments: argparse.Namespace) -> int:
    page = Ledger(engine).find(
        state=None if arguments.state is None else [State(state) for state in arguments.state],
        provider=arguments.provider,
        tenant=arguments.tenant,
        workflow=arguments.workflow,
        held=True if arguments.held else None,
        before=arguments.before,
        limit=arguments.limit,
    )
    if arguments.json:
        _print_json([_plain(record) for record in page.operations])
        return 0
    print(COLUMNS.format("operation", "state", "action", "target", "attempts", "why"))
    for record in page.operations:
        why = record.held or record.reason or record.waiting or record.put_off or ""
        print(COLUMNS.format(record.operation_id, record.state, record.action, record.target, record.attempts, why))
    if page.before is not None:
        print(f"more: acuse operations list --before {page.before}", file=sys.stderr)
    return 0


def _show(engine: Engine, arguments: argparse.Namespace) -> int:
    ledger = Ledger(engine)
    record, history = ledger.get(arguments.operation), ledger.history(arguments.operation)
    if arguments.json:
        _print_json({**_plain(record), "history": [asdict(entry) for entry in history]})
        return 0
    for name, value in asdict(record).items():
        if value not in (None, (), False):
            print(f"{name:<20} {value}")
    print("\nhistory")
    for entry in history:
        arrow = f"{entry.from_state or '·'} -> {entry.to_state}" if entry.kind == "transition" else entry.kind
        who = f"{entry.by}{f' ({entry.actor})' if entry.actor else ''}"
        print(f"  {entry.at:%Y-%m-%d %H:%M:%S.%f}  {entry.what:<12} {arrow:<28} {who:<24} {entry.why or ''}")
    return 0


def _explain(engine: Engine, arguments: argparse.Namespace) -> int:
    ledger = Ledger(engine)
    record, history = ledger.get(arguments.operation), ledger.history(arguments.operation)
    with engine.connect() as connection:
        behind = waiting_behind(connection, record.operation_id)
    lines = explain(record, history, behind, _contract(record))
    if arguments.json:
        _print_json({"operation": record.operation_id, "version": record.version, "lines": lines})
    else:
        print("\n".join(lines))
    return 0


def _operate(engine: Engine, act: Act, arguments: argparse.Namespace) -> int:
    with engine.begin() as connection:
        done = operate(
            connection,
            arguments.operation,
            act,
            version=arguments.version,
            actor=name_of(arguments),
            reason=arguments.reason,
            result_id=getattr(arguments, "result_id", None),
        )
    print(f"{done.operation_id} is {done.state}, version {done.version}")
    return 0


def _contract(record: OperationRecord) -> RetryContract | None:
    """Return the contract of the adapter that is installed here for the operation's provider, if one is."""
    for point in entry_points(group="acuse.adapters", name=record.provider):
        try:
            kind = point.load()
        except ImportError:
            return None
        declared = getattr(_configured(kind), "actions", {}).get(record.action)
        contract = getattr(declared, "contract", None)
        return contract if isinstance(contract, RetryContract) else None
    return None


def _configured(kind: Any) -> Any:  # noqa: ANN401 - an adapter's class, which this package does not import
    """Return the adapter as the environment configures it, since settings shape its contracts; else its class."""
    try:
        return kind.from_environment() or kind
    except (AttributeError, AcuseError):
        return kind


def _plain(record: OperationRecord) -> dict[str, Any]:
    return {**asdict(record), "why": record.why, "what_next": record.what_next}


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, default=_simple))


def _simple(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, Decimal) else repr(value)


operations = OperationsCommand()
