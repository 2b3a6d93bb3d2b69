"""Regions of a page: each is read in a time of its own, and one that is slow or broken takes no other with it.

What is read this way is one transaction, or a part of the one around it, and is rolled back at its end: so nothing of
the time limit outlives it. Within a deadline that is left to the end of that. Readers do not write.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import structlog
from django.db import DatabaseError, connection, transaction

from deadletters.conf import conf
from deadletters.queries import deadlines
from deadletters.queries.deadlines import Deadline

log = structlog.get_logger(__name__)

# One round trip each. Without JIT: what a page reads runs for milliseconds, and compiling it may take seconds.
_BEGIN_WITHIN = "SET LOCAL jit = off; SET LOCAL statement_timeout = {milliseconds}; SAVEPOINT region"
_BEGIN = f"SAVEPOINT page; {_BEGIN_WITHIN}"
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
    """Reads one region after the other, each in so many seconds; `told`: those that a statement may take."""

    def __init__(self, seconds: float, *, told: float) -> None:
        self.seconds, self.told = seconds, told

    def __call__(self, name: str, read: Callable[[], T], *, needs: Sequence[Region[Any]] = ()) -> Region[T]:
        """Return what `read` returns, which must not be lazy, or what kept it from doing so; that is logged.

        It is not tried where a region that it needs is missing: whatever kept that from being read would keep it too.

        Each statement may last as long as the region, and none begins after that, nor after the time of what is
        around it. Only what the database refuses is caught; a fault of ours is one of the whole page.
        """
        if missing := next((each.trouble for each in needs if each.trouble), None):
            return Region(name=name, value=None, trouble=missing)
        try:
            return Region(name=name, value=self.needed(read))
        except DatabaseError as exc:
            _roll_back(_AGAIN)
            return Region(name=name, value=None, trouble=self._logged(name, exc))

    def needed(self, read: Callable[[], T]) -> T:
        """Return what `read` returns in the time of a region: that without which there is nothing to show.

        Raises TookTooLong, or the database's own error.
        """
        deadline = Deadline(self.seconds, told=self.told)
        with connection.execute_wrapper(deadline):
            found = read()
        if deadline.told != self.told:
            _roll_back(_AGAIN)  # the next region has its own time
        return found

    def _logged(self, name: str, exc: DatabaseError) -> Trouble:
        if deadlines.is_over(exc):
            log.warning("region_took_too_long", region=name, limit_seconds=self.seconds)
            return Trouble.SLOW
        sqlstate = getattr(exc.__cause__, "sqlstate", None)
        log.error("region_not_read", region=name, error=type(exc).__name__, sqlstate=sqlstate)
        return Trouble.BROKEN


@contextmanager
def reading(seconds: float | None = None) -> Iterator[Reader]:
    """Read regions at the cost of two more statements for all of them, or of one within a deadline.

    Each is read in REGION_SECONDS, unless another time is given.
    """
    each = conf().region_seconds if seconds is None else seconds
    told, page = deadlines.left_of(each), deadlines.around()
    with transaction.atomic(savepoint=False):
        if page is not None:
            page.told = told
            deadlines.execute(_BEGIN_WITHIN.format(milliseconds=deadlines.milliseconds(told)))
            yield Reader(each, told=told)
            return
        deadlines.execute(_BEGIN.format(milliseconds=deadlines.milliseconds(told)))
        try:
            yield Reader(each, told=told)
        finally:
            _roll_back(_END)


def load(name: str, read: Callable[[], T], *, seconds: float | None = None) -> Region[T]:
    """Read one region."""
    with reading(seconds) as reader:
        return reader(name, read)


def _roll_back(statements: str) -> None:
    transaction.set_rollback(False)  # an atomic block within, without a savepoint, may have asked the outermost for it
    deadlines.execute(statements)
