"""Django for real: its own connection, its atomic blocks and savepoints. It keeps its settings for the life of a process."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, make_url, text

from acuse.store.engine import sync_engine

PREAMBLE = """
    import sys
    import django
    from django.conf import settings

    name, host, port, user, password = sys.argv[1:]
    postgres = dict(ENGINE="django.db.backends.postgresql", NAME=name, HOST=host, PORT=port, USER=user, PASSWORD=password)
    settings.configure(DATABASES={"default": postgres, "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    django.setup()
    from django.db import connection, transaction
    from acuse import Effect, Outbox
    from acuse.bridges.django import bound
    from acuse.errors import ConfigurationError

    outbox = Outbox()

    def close(case, outbox=outbox, using="default"):
        effect = Effect(action="crm.close_case.v1", target=case, payload={"resolution": "done"})
        return bound(outbox, using, tenant="acme").stage(effect, effect_key=f"close-{case}")
"""


@pytest.fixture
def engine(fresh_database_url: str) -> Iterator[Engine]:
    made = sync_engine(fresh_database_url)
    yield made
    made.dispose()


def run(engine: Engine, script: str) -> str:
    url = make_url(engine.url)
    where = [url.database, url.host, url.port, url.username, url.password]
    program = textwrap.dedent(PREAMBLE) + textwrap.dedent(script)
    arguments = ["" if one is None else str(one) for one in where]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def targets(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(text("select target from acuse.operation order by target")).scalars())


def test_what_is_staged_stands_and_falls_with_the_atomic_block(engine: Engine) -> None:
    # Given a block that commits, one that fails, and a savepoint that fails inside one that commits
    said = run(
        engine,
        """
        with connection.cursor() as cursor:
            cursor.execute("create table closed (id text primary key)")
        def change(case):
            with connection.cursor() as cursor:
                cursor.execute("insert into closed values (%s)", [case])
            return close(case)
        with transaction.atomic():
            print(change("kept").created)
        try:
            with transaction.atomic():
                change("failed")
                raise LookupError
        except LookupError:
            pass
        with transaction.atomic():
            change("outer")
            try:
                with transaction.atomic():
                    change("inner")
                    raise LookupError
            except LookupError:
                pass
        with transaction.atomic():
            print(close("kept").created)
        """,
    )
    # Then operations are where the business changes are, and nowhere else
    assert said.split() == ["True", "False"]
    assert targets(engine) == ["kept", "outer"]
    with engine.connect() as connection:
        assert list(connection.execute(text("select id from closed order by id")).scalars()) == ["kept", "outer"]


def test_a_message_counts_for_the_tenant_that_it_was_bound_to(engine: Engine) -> None:
    run(
        engine,
        """
        class Message:
            queue_name, actor_name, message_id = "host", "told", "m-1"
            args, kwargs, options = (), {}, {}
        with transaction.atomic():
            bound(outbox, tenant="acme").send(Message())
        """,
    )
    with engine.connect() as connection:
        assert connection.execute(text("select tenant from acuse.outbox_message")).scalars().all() == ["acme"]


def test_where_nothing_would_be_in_one_transaction_it_says_what_to_do(engine: Engine) -> None:
    said = run(
        engine,
        """
        for using in ("default", "other"):
            try:
                close("1", using=using)
            except ConfigurationError as error:
                print(error)
        """,
    )
    without_block, other_database = said.splitlines()
    assert "transaction.atomic(using='default')" in without_block
    assert "sqlite" in other_database
    assert targets(engine) == []
