"""Writes of an outcome that fail, one after the other, each in its own way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench import Bench

KILLED = "killed"
"""In place of a SQLSTATE: the server ends the connection in the middle of the statement."""


@contextmanager
def failing_settles(bench: Bench, failures: Sequence[str]) -> Iterator[None]:
    """The first writes of a receipt fail with these SQLSTATEs, one each, for as long as the block lasts."""
    codes = ", ".join(f"'{state}'" for state in failures)
    bench.do("create sequence public.failures")
    bench.do(
        f"""create function public.fail_a_few_times() returns trigger language plpgsql as $$
            declare n bigint := nextval('public.failures'); codes text[] := array[{codes}];
            begin
              if codes[n] = '{KILLED}' then perform pg_terminate_backend(pg_backend_pid()), pg_sleep(0.01); end if;
              if n <= cardinality(codes) then raise exception 'injected' using errcode = codes[n]; end if;
              return new;
            end $$"""
    )
    bench.do(
        f"""create trigger a_few_failures before update on acuse.operation for each row
            when (old.tenant = '{bench.tenant}'
                  and new.outcome_code = 'accepted' and old.outcome_code is distinct from 'accepted')
            execute function public.fail_a_few_times()"""
    )
    try:
        yield
    finally:
        bench.do("drop trigger a_few_failures on acuse.operation")
        bench.do("drop function public.fail_a_few_times()")
        bench.do("drop sequence public.failures")


def failed(bench: Bench) -> int:
    """How many writes have failed so far, or were the first to succeed again."""
    return int(bench.ask("select case when is_called then last_value else 0 end from public.failures"))
