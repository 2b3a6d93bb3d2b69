"""What all tests share: handlers of one test, and a quick way back to the database as it was migrated."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import TransactionTestCase
from psycopg import errors

from queues.words.handlers import Registry, registry

_WRITTEN = """
SELECT relname FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
"""
_SUM = "SELECT '{0}', (SELECT coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {0} t)"


@pytest.fixture
def handlers() -> Iterator[Registry]:
    """Let a test register handlers that are gone after it."""
    with registry.scratch() as scratch:
        yield scratch


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """After a test that commits, empty what it wrote: a flush of all tables takes longer than most tests.

    Where a test changed rows that migrations make, the flush makes them anew.
    """
    with django_db_blocker.unblock():
        made = dict(_sums(_written()))
        connection.close()
    flush = TransactionTestCase._fixture_teardown

    def restore(case: TransactionTestCase) -> None:
        _empty(_written() - made.keys())
        if _sums(made) != made:
            flush(case)
            made.update(_sums(made))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", restore)
        yield


def _written() -> set[str]:
    """Return the tables with something in them, be it dead."""
    with connection.cursor() as cursor:
        cursor.execute(_WRITTEN)
        return {name for (name,) in cursor.fetchall()}


def _empty(tables: Iterable[str]) -> None:
    """Truncate tables, with what truncating work rows writes.

    A request that a closed browser left behind may lock them in another order; it ends by itself.
    """
    names = ", ".join(f'"{name}"' for name in sorted({*tables, "flow_deltas"}))
    for may_try_again in (True, True, False):
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"TRUNCATE {names} CASCADE")
            return
        except OperationalError as exc:
            if not (may_try_again and isinstance(exc.__cause__, errors.DeadlockDetected)):
                raise


def _sums(tables: Iterable[str]) -> Mapping[str, Any]:
    """Return a sum of each table's rows."""
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(_SUM.format(name) for name in sorted(tables)))
        return dict(cursor.fetchall())
