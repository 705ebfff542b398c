"""Sessions whose old transaction keeps dead rows: no vacuum may remove what such a transaction might still see.

The relay leaves a dead row for each row that it moves. It does not read them again (`acuse_relay.floor`, `acuse_relay.crowd`),
but tables and indexes grow for as long as this lasts.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

__all__ = ["Holder", "holders"]

# By snapshot (backend_xmin) or by its own number (backend_xid, of a transaction that has written and is idle now), and prepared
# transactions, which no session shows. A vacuum holds back nobody. Of other roles' sessions only a member of
# pg_read_all_stats sees more than that they are there.
_HOLDERS = text(
    """
    select pid, coalesce(usename, '') as role, coalesce(application_name, '') as application, coalesce(state, '') as state,
           extract(epoch from clock_timestamp() - xact_start)::float8 as seconds
      from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and backend_type <> 'autovacuum worker'
       and num_nonnulls(backend_xmin, backend_xid) > 0 and xact_start < clock_timestamp() - make_interval(secs => :older_than)
    union all
    select 0, owner, gid, 'prepared transaction', extract(epoch from clock_timestamp() - prepared)::float8
      from pg_prepared_xacts
     where database = current_database() and prepared < clock_timestamp() - make_interval(secs => :older_than)
     order by seconds desc limit 10
    """
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A session that holds dead rows back. pid: 0 for a prepared transaction, whose name is `application` then."""

    pid: int
    role: str
    application: str
    state: str
    seconds: float


def holders(connection: Connection, older_than: float = 0.0) -> list[Holder]:
    """Return the up to ten oldest that are older than so many seconds, the oldest first."""
    rows = connection.execute(_HOLDERS, {"older_than": older_than})
    return [Holder(row.pid, row.role, row.application, row.state, row.seconds) for row in rows]
