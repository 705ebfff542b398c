"""The row of a bench's account: what all workers know of it together."""

from datetime import datetime, timedelta
from typing import Any

from bench import Bench


class Account:
    """Its columns are attributes, None while there is no row."""

    failures: int | None
    openings: int
    opened_at: datetime | None
    open_until: datetime | None
    closed_at: datetime | None
    probe_fence: int | None
    paused_until: datetime | None
    updated_at: datetime | None

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __getattr__(self, column: str) -> Any:
        return self.bench.ask(f"select max({column}) from acuse.account where account = :account", account=self.bench.tenant)

    @property
    def rows(self) -> int:
        return int(self.bench.ask("select count(*) from acuse.account where account = :account", account=self.bench.tenant))

    def ahead(self, column: str, table: str = "account") -> float:
        """Seconds until a moment; 0 if it is not set."""
        seconds = f"extract(epoch from max({column}) - clock_timestamp())::float8"
        statement = f"select {seconds} from acuse.{table} where account = :account"
        return float(self.bench.ask(statement, account=self.bench.tenant) or 0)

    def xmin_of(self) -> str:
        """Which transaction wrote the row last."""
        return str(self.bench.ask("select xmin from acuse.account where account = :account", account=self.bench.tenant))

    def limit(self, concurrent: int | None = None, per_second: float | None = None) -> None:
        """Somebody says how much the account takes."""
        self.bench.do(
            "select acuse.limit_account('scripted', :account, :concurrent, :per_second, 'eve', 'their terms')",
            account=self.bench.tenant,
            concurrent=concurrent,
            per_second=per_second,
        )

    def pass_time(self, seconds: float) -> None:
        """All that is on record of the account happened so much earlier."""
        self.bench.do(
            """update acuse.account set opened_at = opened_at - :by, open_until = open_until - :by,
               probe_until = probe_until - :by, closed_at = closed_at - :by, paused_at = paused_at - :by,
               paused_until = paused_until - :by, tokens_at = tokens_at - :by
                where account = :account""",
            by=timedelta(seconds=seconds),
            account=self.bench.tenant,
        )
        self.bench.do(
            """update acuse.account_share set queued_until = queued_until - :by, served_at = served_at - :by
                where account = :account""",
            by=timedelta(seconds=seconds),
            account=self.bench.tenant,
        )
