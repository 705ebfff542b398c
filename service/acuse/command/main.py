"""`acuse`: one command whose sub-commands are found by entry points, so that a third party's stand beside ours."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points, version
from typing import Protocol

from acuse.errors import AcuseError

__all__ = ["ENTRY_POINTS", "Command", "main"]

ENTRY_POINTS = "acuse.commands"

_EXTRAS = {"demo": "embedded", "dev": "embedded"}
"""The extra that brings what a command of ours needs; `worker` for the others."""


class Command(Protocol):
    """What an entry point of the group `acuse.commands` loads to."""

    name: str
    help: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it. Returns the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sub-command. Returns its exit code; 2 for a mistake in the call or the settings, with a sentence on what to do."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    parser = argparse.ArgumentParser(prog="acuse", description="A transactional outbox that believes receipts and nothing else.")
    parser.add_argument("--version", action="version", version=f"acuse {version('acuse')}")
    chosen = next((word for word in given if not word.startswith("-")), None)
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands: dict[str, Command] = {}
    for name in sorted(points):
        if chosen in points and name != chosen:
            parsers.add_parser(name)  # known by name; loading it would cost time, and may need what is not installed
            continue
        try:
            command = _load(points[name])
        except ImportError as error:
            if name == chosen:
                print(f"acuse {name} needs more than is installed ({error.name}): {_install(points[name])}", file=sys.stderr)
                return 2
            parsers.add_parser(name, help=f"not installed: {_install(points[name])}")
            continue
        except Exception as error:  # a third party's command that does not load takes no other down
            if name == chosen:
                raise
            parsers.add_parser(name, help=f"does not load: {type(error).__name__}")
            continue
        commands[name] = command
        command.configure(parsers.add_parser(name, help=command.help, description=command.help))
    parsed = parser.parse_args(given)
    try:
        code = commands[parsed.command].run(parsed)
        sys.stdout.flush()
    except AcuseError as error:
        print(f"acuse {parsed.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough: acuse operations list | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _install(point: EntryPoint) -> str:
    """Return what to type so that a command loads. A third party's extras are not known here."""
    owner = point.dist.name if point.dist is not None else "acuse"
    return f"pip install 'acuse[{_EXTRAS.get(point.name, 'worker')}]'" if owner == "acuse" else f"see how {owner} is installed"


def _load(point: EntryPoint) -> Command:
    command: Command = point.load()
    return command


if __name__ == "__main__":
    sys.exit(main())
