"""Deadlines: what a request asks of the database ends with its time, whatever it waits for and however much it asks.

A limit is told to the database for a transaction only, so that nothing of it outlives that, also where sessions are
shared (PgBouncer).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import Any, TypeVar

from django.db import DatabaseError, connection, transaction
from psycopg.pq import TransactionStatus

QUERY_CANCELED, LOCK_NOT_AVAILABLE = "57014", "55P03"

GRACE = 2
"""How many times what is left a statement may take before the database is told a shorter limit."""

# What ends a part has to run also when the time is over, and takes none.
_CONTROL = ("SAVEPOINT", "ROLLBACK", "RELEASE")

# Without JIT: what a page reads runs for milliseconds, and compiling it may take seconds.
_TELL = """SELECT current_setting('statement_timeout'), current_setting('jit'),
       set_config('statement_timeout', '{limit}', true), set_config('jit', 'off', true)"""
_TELL_AGAIN = "SET LOCAL statement_timeout = {limit}"
# A commit, which checks what is deferred, is no statement to the database; but it may wait for locks.
_TELL_OF_LOCKS = "SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit}"
_RESTORE = "SELECT set_config('statement_timeout', '{}', true), set_config('jit', '{}', true)"

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

    `told`: how many seconds the database lets a statement take; None = it has not been told. Of deadlines within each
    other the innermost acts, and none is later than the one around it.
    """

    def __init__(self, seconds: float, *, told: float | None = None) -> None:
        self.until = monotonic() + left_of(seconds)
        self.told = told
        self._is_telling = False

    @property
    def left(self) -> float:
        """Return how many seconds are left."""
        return self.until - monotonic()

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self is _innermost():
            if not sql.startswith(_CONTROL):
                return self.carry_out(lambda: execute(sql, params, many, context))
            if _forgets(sql):
                self.told = None
        return execute(sql, params, many, context)

    def carry_out(self, statement: Callable[[], Any]) -> Any:
        """Run a statement in what time is left."""
        left = self.left
        if left <= 0:
            raise TookTooLong
        if not self._is_telling and (self.told is None or left * GRACE < self.told):
            is_told, self.told, self._is_telling = self.told is not None, left, True
            try:
                self.tell(left, again=is_told)
            finally:
                self._is_telling = False
        return statement()

    def tell(self, seconds: float, *, again: bool) -> None:
        """Tell the database how long a statement may take from now on."""
        with connection.cursor() as cursor:
            cursor.execute((_TELL_AGAIN if again else _TELL).format(limit=milliseconds(seconds)))


class _PartDeadline(Deadline):
    """A deadline within somebody's transaction, which has its own limit again afterwards."""

    before: tuple[str, str] | None = None

    def tell(self, seconds: float, *, again: bool) -> None:
        if again:
            return super().tell(seconds, again=True)
        with connection.cursor() as cursor:
            cursor.execute(_TELL.format(limit=milliseconds(seconds)))
            self.before = self.before or cursor.fetchone()[:2]
        return None

    def restore(self) -> None:
        if self.before is not None:
            execute(_RESTORE.format(*self.before))


class Patience:
    """Lets each statement take so long, in whatever transaction it is: for what may need more than one."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._is_told = False

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self is not _innermost():
            return execute(sql, params, many, context)
        if sql.startswith(_CONTROL):
            self._is_told = self._is_told and not _forgets(sql)
            return execute(sql, params, many, context)
        with transaction.atomic() if not connection.in_atomic_block else nullcontext():
            self._tell()
            return execute(sql, params, many, context)

    def _tell(self) -> None:
        has_begun = connection.connection.info.transaction_status != TransactionStatus.IDLE
        if has_begun and self._is_told:
            return
        self._is_told = True
        with connection.wrap_database_errors:
            connection.connection.execute(_TELL_OF_LOCKS.format(limit=milliseconds(self.left)))


def _forgets(sql: str) -> bool:
    """Say whether a statement takes back what was told: Django's do, which quotes names, and ours are around it."""
    return sql.startswith('ROLLBACK TO SAVEPOINT "')


def _innermost() -> Deadline | Patience | None:
    found = (each for each in reversed(connection.execute_wrappers) if isinstance(each, Deadline | Patience))
    return next(found, None)


def around() -> Deadline | None:
    """Return the deadline that is in force, if one is."""
    found = _innermost()
    return found if isinstance(found, Deadline) else None


def left_of(seconds: float) -> float:
    """Return so many seconds, or what is left of the time around where that is less."""
    limit = _innermost()
    return seconds if limit is None else min(seconds, limit.left)


def limited(seconds: float) -> AbstractContextManager[object]:
    """Let what is within take so long, as one transaction or as a part of the one that there is.

    Raises TookTooLong, or the database's own error of which `is_over` is true; nothing is written then.
    """
    return _part(seconds) if connection.in_atomic_block else _whole(seconds)


@contextmanager
def _whole(seconds: float) -> Iterator[None]:
    with transaction.atomic(), connection.execute_wrapper(Deadline(seconds)):
        yield


@contextmanager
def _part(seconds: float) -> Iterator[None]:
    deadline = _PartDeadline(seconds)
    try:
        with connection.execute_wrapper(deadline):
            yield
    except DatabaseError:
        transaction.set_rollback(True)  # as a block without a savepoint does
        raise
    except BaseException:
        if connection.connection.info.transaction_status == TransactionStatus.INTRANS:
            deadline.restore()
        raise
    deadline.restore()


@contextmanager
def of_request(seconds: float) -> Iterator[None]:
    """Let what a request reads take so long, as one transaction; where it is one already, the limit lasts to its end.

    Raises what `limited` does.
    """
    with nullcontext() if connection.in_atomic_block else transaction.atomic():
        try:
            with connection.execute_wrapper(Deadline(seconds)):
                yield
        except DatabaseError:
            transaction.set_rollback(True)
            raise


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Let each statement within take so long; what was committed before one that takes longer stays."""
    with connection.execute_wrapper(Patience(seconds)):
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
