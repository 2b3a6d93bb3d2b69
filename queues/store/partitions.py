"""Months of the delivery log: made ahead, and dropped when they are old.

Writers of the log never wait for this long. Whatever waits for too long gives up, and the next call goes on there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Any

import structlog
from django.apps import apps as installed
from django.apps.registry import Apps
from django.db import Error as DatabaseError
from django.db import connection, transaction

from queues.conf import conf

log = structlog.get_logger(__name__)

LOCK_SECONDS = 3
MAX_DROPPED = 100
"""Months that one call drops."""


def make_ahead(months: int) -> int:
    """Make the missing partitions from this month to `months` ahead; return how many were made."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT made, missing FROM make_delivery_log_partitions(%s)", [months])
        made, missing = cursor.fetchone()
    if missing:
        log.warning("delivery_log_months_missing", missing=missing)
    return int(made)


def make_after_migrate(*, apps: Apps = installed, **_: Any) -> None:
    """Make partitions when the log is there: a migration may have taken it down."""
    if "deliverylogentry" in apps.all_models["queues"]:
        make_ahead(conf().delivery_log_months_ahead)


@dataclass(frozen=True, kw_only=True)
class _Month:
    """A partition that is old, or a table that was one and is marked to be dropped."""

    name: str
    is_attached: bool
    is_pending: bool
    """Its detaching was interrupted half-way."""


_EXPIRED = """
SELECT relname, attached, pending FROM expired_delivery_log_partitions(%s) ORDER BY relname LIMIT %s
"""


def drop_expired(days: int) -> int:
    """Drop the months that ended more than `days` days ago, oldest first; return how many.

    Runs outside a transaction: a month is marked, detached while others write, and dropped. What another process or
    an end half-way leaves of that is done by the next call. A table that somebody else detached is left alone.
    """
    with connection.cursor() as cursor:
        cursor.execute(_EXPIRED, [days, MAX_DROPPED])
        months = [_Month(name=name, is_attached=is_in, is_pending=half) for name, is_in, half in cursor.fetchall()]
    return sum(_drop(month) for month in months)


def _drop(month: _Month) -> bool:
    try:
        if month.is_attached and not month.is_pending:
            _in_transaction("SELECT mark_delivery_log_partition(%s)", [month.name])
            _detach(month.name)
        elif month.is_pending:
            _in_transaction(f'ALTER TABLE delivery_log DETACH PARTITION "{month.name}" FINALIZE')
        _in_transaction(f'DROP TABLE IF EXISTS "{month.name}"')
    except DatabaseError as exc:
        log.warning("delivery_log_month_not_dropped", month=month.name, error=str(exc)[:200])
        return False
    log.info("delivery_log_month_dropped", month=month.name)
    return True


def _in_transaction(statement: str, arguments: tuple[Any, ...] | list[Any] | None = None) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_SECONDS}s"])
        cursor.execute(statement, arguments)


def _detach(name: str) -> None:
    """Detach without keeping writers out, which no transaction and so no local timeout allows."""
    with connection.cursor() as cursor, _cancelled_later():
        cursor.execute(f'ALTER TABLE delivery_log DETACH PARTITION "{name}" CONCURRENTLY')


@contextmanager
def _cancelled_later() -> Iterator[None]:
    timer = Timer(LOCK_SECONDS, connection.connection.cancel)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
