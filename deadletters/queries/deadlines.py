"""Deadlines: what a request asks of the database ends with its time, whatever it waits for and however much it asks.

A limit is told to the database for a transaction only, so that nothing of it outlives that, also where sessions are
shared (PgBouncer).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Any, TypeVar

from django.db import DatabaseError, connection, transaction
from psycopg.pq import TransactionStatus

QUERY_CANCELED, LOCK_NOT_AVAILABLE = "57014", "55P03"

GRACE = 2
"""How many times what is left a statement may take before the database is told a shorter limit."""

# What ends a part has to run also when the time is over, and takes none.
_CONTROL = ("SAVEPOINT", "ROLLBACK", "RELEASE")

# Without JIT: what a page reads runs for milliseconds, and compiling it may take seconds. A commit, which checks what
# is deferred, is no statement to the database; but it may wait for locks.
_TELL = """SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('jit'),
       set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true), set_config('jit', %s, true)"""
_RESTORE = """SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),
       set_config('jit', %s, true)"""

T = TypeVar("T")


class TookTooLong(DatabaseError):
    """The time is over, and more would have been asked for."""


def is_over(exc: BaseException) -> bool:
    """Say whether a fault of the database is that the time is over."""
    sqlstate = getattr(exc.__cause__, "sqlstate", None)
    return isinstance(exc, TookTooLong) or sqlstate in (QUERY_CANCELED, LOCK_NOT_AVAILABLE)


def milliseconds(seconds: float) -> int:
    """Return a limit as the database takes it, for which 0 would be none."""
    return max(round(seconds * 1000), 1)


class Deadline:
    """Lets no statement begin once the time is over, and none take more than GRACE times what was left.

    is_of_each: each statement has the time anew, in whatever transaction it is. `told`: how many seconds the database
    lets a statement take; None = it has not been told. Of deadlines within each other the innermost acts, and none is
    later than the one around it.
    """

    def __init__(self, seconds: float, *, told: float | None = None, is_of_each: bool = False) -> None:
        self.seconds, self.told, self.is_of_each = left_of(seconds), told, is_of_each
        self.until = monotonic() + self.seconds
        self.before: Sequence[str] | None = None

    @property
    def left(self) -> float:
        """Return how many seconds are left."""
        return self.seconds if self.is_of_each else self.until - monotonic()

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self is not _innermost():
            return execute(sql, params, many, context)
        if sql.startswith(_CONTROL):
            self.told = None if _forgets(sql) else self.told
            return execute(sql, params, many, context)
        with nullcontext() if connection.in_atomic_block else transaction.atomic():
            self._tell()
            return execute(sql, params, many, context)

    def _tell(self) -> None:
        """Tell the database how long a statement may take from now on, where it does not know it by its transaction."""
        left = self.left
        if left <= 0:
            raise TookTooLong
        own = connection.connection
        has_begun = own.info.transaction_status != TransactionStatus.IDLE
        if has_begun and self.told is not None and left * GRACE >= self.told:
            return
        limit = f"{milliseconds(left)}ms"
        with connection.wrap_database_errors:
            known = own.execute(_TELL, [limit, limit, "off"]).fetchone()
        self.told, self.before = left, self.before or known[:3]

    def restore(self) -> None:
        """Give the transaction the limits again that it had."""
        if self.before is not None:
            with connection.cursor() as cursor:
                cursor.execute(_RESTORE, self.before)


def _forgets(sql: str) -> bool:
    """Say whether a statement takes back what was told: Django's do, which quotes names, and ours are around it."""
    return sql.startswith('ROLLBACK TO SAVEPOINT "')


def _innermost() -> Deadline | None:
    return next((each for each in reversed(connection.execute_wrappers) if isinstance(each, Deadline)), None)


def around() -> Deadline | None:
    """Return the deadline of all that is read, if one is in force."""
    found = _innermost()
    return None if found is None or found.is_of_each else found


def left_of(seconds: float) -> float:
    """Return so many seconds, or what is left of the time around where that is less."""
    limit = _innermost()
    return seconds if limit is None else min(seconds, limit.left)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Let what is within take so long, as one transaction or as a part of the one that there is.

    Raises TookTooLong, or the database's own error of which `is_over` is true; nothing is written then.
    """
    is_part, deadline = connection.in_atomic_block, Deadline(seconds)
    try:
        with _within(deadline):
            yield
    finally:
        if is_part and _goes_on():
            deadline.restore()


def _goes_on() -> bool:
    """Say whether the transaction around is one that lasts: of one that is rolled back nothing has to be restored."""
    status = connection.connection.info.transaction_status
    return bool(status == TransactionStatus.INTRANS) and not transaction.get_rollback()


@contextmanager
def of_request(seconds: float) -> Iterator[None]:
    """Let what a request reads take so long, as one transaction; where it is one already, the limit lasts to its end.

    Raises what `limited` does.
    """
    with _within(Deadline(seconds)):
        yield


@contextmanager
def _within(deadline: Deadline) -> Iterator[None]:
    with nullcontext() if connection.in_atomic_block else transaction.atomic():
        try:
            with connection.execute_wrapper(deadline):
                yield
        except DatabaseError:
            transaction.set_rollback(True)  # as a block without a savepoint does
            raise


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Let each statement within take so long; what was committed before one that takes longer stays."""
    with connection.execute_wrapper(Deadline(seconds, is_of_each=True)):
        yield


def in_pieces(pieces: Iterable[T], seconds: float) -> Iterator[T]:
    """Yield the pieces, each of which may take so long to be read."""
    each = iter(pieces)
    while True:
        with limited(seconds):
            piece = next(each, None)
        if piece is None:
            return
        yield piece


def execute(statements: str) -> None:
    """Run statements that return nothing."""
    with connection.cursor() as cursor:
        cursor.execute(statements)
