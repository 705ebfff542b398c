"""Who acts at a terminal and why, for the record."""

import argparse
import getpass

from acuse.errors import ConfigurationError

__all__ = ["add_person", "name_of"]


def add_person(parser: argparse.ArgumentParser) -> None:
    """Add who and why, which stand on the record for ever."""
    parser.add_argument("--reason", required=True, help="for the record")
    parser.add_argument("--by", help="your name, for the record (default: the account you are logged in with)")


def name_of(arguments: argparse.Namespace) -> str:
    """Return who acts. Raises `ConfigurationError` for an account without a name, as in a container."""
    if arguments.by:
        return str(arguments.by)
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigurationError("say who you are, for the record: --by NAME") from None
