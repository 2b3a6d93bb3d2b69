"""A savepoint that is set only when a run first sends something over the connection that it shares.

Most of what a savepoint costs is its round trips, and many runs have nothing to roll back.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from django.db import Error as DatabaseError
from psycopg.pq import ExecStatus, TransactionStatus

from queues.words.errors import QueuesError

_NAME = "queues_run"
_SET = f"SAVEPOINT {_NAME}".encode()
_KEEP = f"SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; RELEASE SAVEPOINT {_NAME}"
_UNDO = f"ROLLBACK TO SAVEPOINT {_NAME}; RELEASE SAVEPOINT {_NAME}"


class TransactionLeftOpen(QueuesError):
    """The handler left a transaction open."""


class Savepoint:
    """The savepoint of one run, which is the block; `is_set`: the run has sent something.

    shared: Django's wrapper of the connection. execute_wrapper: around each statement of a Django cursor within the
    block. An atomic block that is left open is closed at the end, or the shared one would never be committed; then
    TransactionLeftOpen is raised.
    """

    def __init__(self, shared: Any, execute_wrapper: Callable[..., Any]) -> None:
        self.is_set = False
        self._shared = shared
        self._wrapper = execute_wrapper

    def __enter__(self) -> Self:
        """From now on set it before anything is sent, be it by the ORM, by a cursor or by psycopg itself.

        All of them wait for the server by the `wait` of psycopg's connection.
        """
        shared = self._shared
        self._depth, self._blocks = len(shared.savepoint_ids), len(shared.atomic_blocks)
        self._callbacks = len(shared.run_on_commit)
        self._raw = shared.connection
        if self._raw.pgconn.transaction_status == TransactionStatus.IDLE:
            self._execute("SELECT")  # psycopg begins a transaction with its first statement only
        shared.execute_wrappers.append(self._wrapper)
        self._raw.wait = self._set_and_wait
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        shared = self._shared
        vars(self._raw).pop("wait", None)
        shared.execute_wrappers.remove(self._wrapper)
        is_left_open = len(shared.savepoint_ids) > self._depth
        del shared.savepoint_ids[self._depth :]
        del shared.atomic_blocks[self._blocks :]
        if is_left_open and exc is None:
            raise TransactionLeftOpen

    def keep(self) -> None:
        """Keep what the run wrote: deferred constraints are checked now, and a transaction that broke is refused."""
        if self.is_set:
            self._execute(_KEEP)
        self._shared.validate_no_broken_transaction()

    def undo(self) -> None:
        """Undo what the run wrote, and drop its on-commit callbacks."""
        shared = self._shared
        del shared.run_on_commit[self._callbacks :]
        if shared.closed_in_transaction:
            return  # the server undoes all of it
        shared.needs_rollback = False
        if self.is_set:
            try:
                self._execute(_UNDO)
            except DatabaseError:
                shared.needs_rollback = True

    def is_broken(self) -> bool:
        """Say whether the connection, or the transaction that the run shared, is gone."""
        raw = self._shared.connection
        return raw is None or raw.closed or raw.pgconn.transaction_status != TransactionStatus.INTRANS

    def _execute(self, statement: str) -> None:
        with self._shared.cursor() as cursor:
            cursor.execute(statement)

    def _set_and_wait(self, *args: Any, **options: Any) -> Any:
        """Set the savepoint below psycopg, which is waiting already with its lock held; then wait as it would."""
        del self._raw.wait
        self.is_set = self._raw.pgconn.exec_(_SET).status == ExecStatus.COMMAND_OK
        return self._raw.wait(*args, **options)
