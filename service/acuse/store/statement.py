"""One SQL text for the ways in which drivers mark parameters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sqlalchemy import TextClause, text

__all__ = ["Statement"]

_NAME: Final = re.compile(r"(?<!:):([a-z_]+)")


@dataclass(frozen=True)
class Statement:
    """SQL with `:name` parameters, written once; casts are spelled `cast(… as …)`, since asyncpg infers types from them."""

    sql: str

    @cached_property
    def sqlalchemy(self) -> TextClause:
        """For `Connection.execute`, whichever driver is below."""
        return text(self.sql)

    @cached_property
    def psycopg(self) -> bytes:
        """With `%(name)s`. As bytes, the form of a query that psycopg takes from a variable."""
        return _NAME.sub(r"%(\1)s", self.sql.replace("%", "%%")).encode()

    @cached_property
    def asyncpg(self) -> str:
        """With `$1`, `$2`, …; the values are those of `in_order`."""
        return _NAME.sub(lambda found: f"${self._names.index(found[1]) + 1}", self.sql)

    def in_order(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of `asyncpg`'s numbers."""
        return [values[name] for name in self._names]

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(_NAME.findall(self.sql)))
