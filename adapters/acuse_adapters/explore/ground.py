"""The ledger of the explorer: a real one, with a clock, dice and ids that belong to the schedule that runs."""

from typing import Any, Final, Self

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import QueuePool

from acuse_adapters.explore.clock import BASE
from acuse_adapters.explore.line import Lines

__all__ = ["LEDGER", "Ground"]

LEDGER: Final = "explore"
"""The ledger's own id, the same in all schedules."""

MOST_CONNECTIONS: Final = 40
"""More than a schedule ever has transactions open at once. They are made as they are wanted, some five as a rule."""

SCHEDULES_A_VACUUM: Final = 200

_TABLES: Final = (
    "incident", "outbox_message", "dependency", "operation", "approval", "account", "workflow", "flow_version",
    "event", "payload_202606", "attempt_202606", "evidence_202606", "ledger_202606",
)  # fmt: skip

_SETTINGS: Final = {
    "search_path": "acuse,pg_catalog",
    "deadlock_timeout": "1h",  # a deadlock is ended by the explorer, since the database draws who is
    "jit": "off",
    "synchronous_commit": "off",
    # One plan for each statement, whatever the tables hold: rows come in the order of an index or of a sort.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashagg": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
}

# Functions in the schema of the ledger are found before those of PostgreSQL: its functions have it first on their path.
_OWNED: Final = """
create unlogged sequence acuse.explore_clock minvalue 0;
create unlogged sequence acuse.explore_dice minvalue 0;
create unlogged sequence acuse.explore_ids minvalue 0;
create function acuse.clock_timestamp() returns timestamptz language plpgsql volatile as
  $$ begin return timestamptz 'BASE' + nextval('acuse.explore_clock') * interval '1 microsecond'; end $$;
create function acuse.statement_timestamp() returns timestamptz language plpgsql stable as
  $$ begin return timestamptz 'BASE' + interval '1 microsecond' * (select last_value from acuse.explore_clock); end $$;
create function acuse.random() returns double precision language plpgsql volatile as
  $$ begin return (hashint8extended(nextval('acuse.explore_dice'), 42) & 1048575) / 1048576.0; end $$;
create or replace function acuse.uuid7() returns uuid language plpgsql volatile as $$ begin
  return (lpad(to_hex((extract(epoch from acuse.clock_timestamp()) * 1000)::bigint), 12, '0') || '7000'
          || '8' || lpad(to_hex(nextval('acuse.explore_ids')), 15, '0'))::uuid; end $$;
update acuse.meta set value = 'LEDGER' where key = 'ledger_id';
select setval('acuse.explore_clock', 0), acuse.ensure_partitions(1);
create or replace function acuse.ensure_partitions(p_months int) returns int language sql as 'select 0';
""".replace("BASE", BASE.isoformat()).replace("LEDGER", LEDGER)

# Its own months only, and no WAL: a COMMIT then waits for no disk.
_SMALL: Final = """
do $$ declare r record; begin
  for r in select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
            where c.relnamespace = 'acuse'::regnamespace and c.relkind = 'r' and c.relname not like '%\\_202606' loop
    execute format('drop table acuse.%I', r.relname);
  end loop;
  for r in select c.relname from pg_class c where c.relnamespace = 'acuse'::regnamespace and c.relkind = 'r'
            order by c.relname <> 'dependency' loop
    execute format('alter table acuse.%I set unlogged', r.relname);
    execute format('alter table acuse.%I set (autovacuum_enabled = off)', r.relname);
  end loop;
end $$;
"""

# What guards history refuses to have it deleted, so its triggers rest meanwhile.
_EMPTY: Final = f"""
set session_replication_role = replica;
{"".join(f"delete from acuse.{table}; " for table in _TABLES)}
set session_replication_role = origin;
select setval('acuse.explore_clock', 0), setval('acuse.explore_dice', DICE), setval('acuse.explore_ids', 0),
       setval(pg_get_serial_sequence('acuse.operation', 'seq'), 1, false),
       setval(pg_get_serial_sequence('acuse.outbox_message', 'id'), 1, false)
"""  # noqa: S608  # our own words


class Ground:
    """A context manager around one migrated database, which it makes its own. `url`: of that database, for a superuser.

    `engine` is for everybody in a schedule; `ask` looks at the database from outside.
    """

    def __init__(self, url: str) -> None:
        options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._outside = psycopg.connect(plain, options=options, autocommit=True, prepare_threshold=1, row_factory=dict_row)
        self._outside.execute(_OWNED)
        self._outside.execute(_SMALL)
        self.lines = Lines(plain, options)
        self.engine = create_engine(
            "postgresql+psycopg://",
            creator=self.lines.take,
            poolclass=QueuePool,
            pool_size=MOST_CONNECTIONS,
            max_overflow=0,
            pool_use_lifo=True,
            pool_reset_on_return=None,
        )
        self._schedules = 0
        self.engine.connect().close()  # what the driver asks a server first is no step of anybody

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self._outside.close()

    def empty(self, seed: int) -> None:
        """Make the ledger as it was in the beginning; `seed` is of its dice."""
        if self._schedules % SCHEDULES_A_VACUUM == 0:
            self._outside.execute(f"vacuum {', '.join(f'acuse.{table}' for table in _TABLES)}")
        self._schedules += 1
        self._outside.execute(_EMPTY.replace("DICE", str(seed % 1_000_000 * 1_000_000)).encode())

    def ask(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Read from outside."""
        return list(self._outside.execute(statement.encode(), values))

    # the watch of the turns

    def waits(self, backend: int) -> bool:
        """Whether a session waits for a lock."""
        return bool(self.ask("select 1 from pg_catalog.pg_locks where pid = %s and not granted", backend))

    def waits_for(self, backend: int, other: int) -> bool:
        """Whether a session waits for another."""
        return bool(self.ask("select 1 where %s = any(pg_catalog.pg_blocking_pids(%s))", other, backend))

    def cancel(self, backend: int) -> None:
        """End the statement of a session."""
        self.ask("select pg_catalog.pg_cancel_backend(%s)", backend)

    def set_clock(self, now: int) -> None:
        """Let it be so many microseconds since `BASE`."""
        self.ask("select pg_catalog.setval('acuse.explore_clock', %s)", now)
