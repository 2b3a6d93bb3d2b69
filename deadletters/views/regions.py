"""Regions of a page: each is read in a time of its own, and one that is slow or broken takes no other with it.

What a page reads this way is one transaction, or a part of the request's own (ATOMIC_REQUESTS), and is rolled back at
its end: so nothing of the time limit outlives it, also where sessions are shared (PgBouncer). Readers do not write.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any, Generic, TypeVar

import structlog
from django.db import DatabaseError, connection, transaction

from deadletters.conf import conf

log = structlog.get_logger(__name__)

QUERY_CANCELED, LOCK_NOT_AVAILABLE = "57014", "55P03"

# One round trip each. Without JIT: what a page reads runs for milliseconds, and compiling it may take seconds.
_BEGIN = "SAVEPOINT page; SET LOCAL jit = off; SET LOCAL statement_timeout = {milliseconds}; SAVEPOINT region"
_AGAIN = "ROLLBACK TO SAVEPOINT region"
_END = "ROLLBACK TO SAVEPOINT page; RELEASE SAVEPOINT page"

T = TypeVar("T")


class Trouble(StrEnum):
    """Why a region is missing."""

    SLOW = "slow"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class Region(Generic[T]):
    """What was read for a part of a page; `value` is None where there is `trouble`."""

    name: str
    value: T | None
    trouble: Trouble | None = None


class Reader:
    """Reads one region after the other."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, name: str, read: Callable[[], T]) -> Region[T]:
        """Return what `read` returns, which must not be lazy, or what kept it from doing so; that is logged.

        Each statement may last as long as the region, and none begins after that. Only what the database refuses is
        caught; a fault of ours is one of the whole page.
        """
        try:
            with connection.execute_wrapper(_Deadline(monotonic() + self.seconds)):
                return Region(name=name, value=read())
        except DatabaseError as exc:
            _roll_back(_AGAIN)
            return Region(name=name, value=None, trouble=self._logged(name, exc))

    def _logged(self, name: str, exc: DatabaseError) -> Trouble:
        sqlstate = getattr(exc.__cause__, "sqlstate", None)
        if isinstance(exc, _TookTooLong) or sqlstate in (QUERY_CANCELED, LOCK_NOT_AVAILABLE):
            log.warning("region_took_too_long", region=name, limit_seconds=self.seconds)
            return Trouble.SLOW
        log.error("region_not_read", region=name, error=type(exc).__name__, sqlstate=sqlstate)
        return Trouble.BROKEN


@contextmanager
def reading() -> Iterator[Reader]:
    """Read the regions of a page, at the cost of two more statements for all of them."""
    seconds = conf().region_seconds
    with transaction.atomic(savepoint=False):
        _execute(_BEGIN.format(milliseconds=max(round(seconds * 1000), 1)))
        try:
            yield Reader(seconds)
        finally:
            _roll_back(_END)


def load(name: str, read: Callable[[], T]) -> Region[T]:
    """Read one region."""
    with reading() as reader:
        return reader(name, read)


class _TookTooLong(DatabaseError):
    """The time of the region is over, and it would have asked for more."""


class _Deadline:
    """Lets no statement begin once the time is over."""

    def __init__(self, until: float) -> None:
        self.until = until

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if monotonic() > self.until:
            raise _TookTooLong
        return execute(sql, params, many, context)


def _roll_back(statements: str) -> None:
    transaction.set_rollback(False)  # an atomic block within, without a savepoint, may have asked the outermost for it
    _execute(statements)


def _execute(statements: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statements)
