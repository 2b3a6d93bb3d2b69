"""How tests have somebody else hold a table."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Have somebody else hold a table so that nobody can read it; what waits for the end of that fails."""
    known = connection.settings_dict
    with psycopg.connect(
        dbname=known["NAME"], host=known["HOST"], port=known["PORT"] or None, user=known["USER"],
        password=known["PASSWORD"],
    ) as other:  # fmt: skip
        other.execute("SET idle_in_transaction_session_timeout = '60s'")
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
        other.execute("SELECT 1")
