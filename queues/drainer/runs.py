"""One message's turn: what is known before it runs, the run, and what came of it."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from queues import instances
from queues.conf import classifiers, conf
from queues.drainer.savepoints import Savepoint, TransactionLeftOpen
from queues.drainer.turns import Turn, Work
from queues.store.claims import Claimed
from queues.store.events import Move
from queues.store.outcomes import Event, append_log
from queues.words.errors import NotReady, QueuesError
from queues.words.failures import Failure, attribution
from queues.words.foreign import exact_text, read
from queues.words.outcomes import (
    APPLIED_ALREADY,
    Cause,
    Decision,
    FailureReason,
    OutcomeKind,
    decide,
    rule,
)
from queues.words.sources import OUTBOX

_SUCCESS: Mapping[str, Any] = {"kind": OutcomeKind.SUCCESS}
LOST_MESSAGE = "exceeded retry limit"
DEADLOCK, SERIALIZATION_FAILURE = "40P01", "40001"


class ConnectionBroken(QueuesError):
    """The database connection or its transaction was lost while a handler ran."""

    started_at: datetime
    """When the run had begun."""


_CONTROL = re.compile(r"\s*(COMMIT|END|ABORT|ROLLBACK(?!\s+TO\b)|BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_SETS = re.compile(r"(^|;)\s*(SET|RESET)\s+(?!CONSTRAINTS\b)|\bset_config\s*\(", re.IGNORECASE)


class TransactionControl(QueuesError):
    """A handler may not begin or end the transaction that it shares; one that must is declared atomic=False."""


@dataclass(kw_only=True, slots=True)  # not frozen, which costs each message more than making it
class Result:
    """What came of one turn. `attempts` counts this run if there was one.

    `was_applied`: its effect was there already, so that it did nothing. `move`: of the cursor, which is recorded
    with it. `used_savepoint`: it used the database that it shares.
    """

    turn: Turn
    kind: OutcomeKind
    attempts: int
    dead: Cause | None = None
    reason: FailureReason = FailureReason.UNKNOWN
    failure: Failure | None = None
    last_reported: str | None = None
    delay: timedelta | None = None
    started_at: datetime | None = None
    duration_ms: int | None = None
    changed_session: bool = False
    was_applied: bool = False
    move: Move | None = None
    used_savepoint: bool = False

    @property
    def ran(self) -> bool:
        return self.started_at is not None


@dataclass(slots=True)
class Session:
    """What a run did to the session that it shares. `is_changed`: it set something that others must not see.

    `was_applied`: it found its effect there already. `move`: of the cursor. `used_savepoint`: it needed one.
    """

    is_changed: bool = False
    was_applied: bool = False
    move: Move | None = None
    used_savepoint: bool = False

    def do(self, work: Work) -> None:
        came_of_it = work()
        self.was_applied = came_of_it is APPLIED_ALREADY
        self.move = came_of_it if isinstance(came_of_it, Move) else None

    def watch(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Note statements that set something."""
        self.is_changed = self.is_changed or (isinstance(sql, str) and _SETS.search(sql) is not None)
        return execute(sql, params, many, context)

    def share(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Do so, and refuse a COMMIT by hand: it would commit the neighbours' work without their records."""
        if isinstance(sql, str) and _CONTROL.match(sql):
            raise TransactionControl
        return self.watch(execute, sql, params, many, context)


def run_atomic(turn: Turn, work: Work, *, shared: BaseDatabaseWrapper) -> Result:
    """Run the handler in a savepoint, if it touches the database: its writes stay only when it succeeds.

    shared: the connection with the open transaction, which takes long to look up for each message. Deferred
    constraints are checked at once, and a handler that swallowed a database error or ended the transaction has
    failed. Raises ConnectionBroken when the connection went with the handler.
    """
    return _run(turn, work, partial(_call_in_savepoint, shared))


def run_plain(turn: Turn, work: Work) -> Result:
    """Run the handler outside any transaction; one that leaves a transaction open has failed."""
    return _run(turn, work, _call_outside)


def _run(turn: Turn, work: Work, call: Callable[[Work, Session], None]) -> Result:
    started_at, clock, session = datetime.now(UTC), time.monotonic(), Session()
    outcome: Mapping[str, Any] = _SUCCESS
    try:
        call(work, session)
    except ConnectionBroken as exc:
        exc.started_at = started_at
        raise
    except BaseException as exc:  # a handler that calls sys.exit() has failed; it must not end the drain uncharged
        outcome = _uncharged(turn, exc) or failed(turn, exc)
    spent = round((time.monotonic() - clock) * 1000)
    return Result(
        turn=turn,
        attempts=turn.row.attempts + 1,
        started_at=started_at,
        duration_ms=spent,
        changed_session=session.is_changed,
        was_applied=session.was_applied,
        move=session.move,
        used_savepoint=session.used_savepoint,
        **outcome,
    )


def _call_outside(work: Work, session: Session) -> None:
    was_inside = connection.in_atomic_block  # a test's transaction
    try:
        with connection.execute_wrapper(session.watch):
            session.do(work)
        if not was_inside and _is_in_transaction():
            raise TransactionLeftOpen
    finally:
        if not was_inside and (session.is_changed or _is_in_transaction()):
            connection.in_atomic_block = False
            connection.close()


def _is_in_transaction() -> bool:
    raw = connection.connection
    is_open = raw is not None and not raw.closed and raw.info.transaction_status != TransactionStatus.IDLE
    return connection.in_atomic_block or is_open or not connection.get_autocommit()


def drop_session() -> None:
    """Close the connection with whatever a handler left in its session; the next statement opens another.

    Inside somebody's transaction, as in a test, there is nothing to close.
    """
    if not connection.in_atomic_block:
        connection.close()


def _call_in_savepoint(shared: BaseDatabaseWrapper, work: Work, session: Session) -> None:
    savepoint = Savepoint(shared, session.share)
    try:
        with savepoint:
            session.do(work)
        savepoint.keep()
        if savepoint.is_broken():
            raise ConnectionBroken
    except BaseException as exc:
        savepoint.undo()
        if savepoint.is_broken():
            raise ConnectionBroken from exc
        raise
    finally:
        session.used_savepoint = savepoint.is_set


def failed(turn: Turn, exc: BaseException) -> dict[str, Any]:
    """Return what a run that raised comes to, as fields of a Result."""
    ruling = rule(exc, classifiers())
    row = turn.row
    decision = decide(ruling, attempts=row.attempts + 1, delays=row.delays, releases=turn.releases, budget=turn.budget)
    return _decided(decision, attribution(exc))


def lost(turn: Turn, *, last_reported: str | None = None) -> Result:
    """Return what a run whose process was lost comes to; its charge is in the row's attempts already."""
    return Result(
        turn=turn,
        kind=OutcomeKind.WORKER_LOST,
        attempts=turn.row.attempts,
        dead=Cause.WORKER_LOST if turn.is_spent else None,
        reason=FailureReason.LEASE_EXPIRED,
        failure=Failure(message=LOST_MESSAGE) if turn.is_spent else None,
        last_reported=last_reported,
    )


def log_loss(turn: Turn) -> None:
    """Write a lost run to the delivery log when the message runs on; a death writes its own."""
    if not turn.is_spent:
        log_without_run(turn.source, [turn.row], OutcomeKind.WORKER_LOST)


def log_without_run(source: str, rows: Sequence[Claimed], outcome: OutcomeKind) -> None:
    """Write an event for rows whose handler did not report; when the log is off, only for rows under recovery."""
    logs_all = conf().log_mode(source) != "off"
    events = [
        Event(
            message_id=row.message_id,
            life=row.life,
            attempt=row.attempts,
            outcome=outcome,
            failure=None,
            started_at=None,
            duration_ms=None,
        )
        for row in rows
        if logs_all or row.dead_letter_id is not None
    ]
    append_log(source, events, worker=instances.current().id, generation=conf().generation)


def given_back(turn: Turn) -> Result:
    """Return a run that counts for nothing, through no fault of the message. It waits, lest it spins."""
    wait = timedelta(seconds=conf().backoff_base_seconds)
    return Result(turn=turn, kind=OutcomeKind.RELEASED, attempts=turn.row.attempts + 1, delay=wait)


def _uncharged(turn: Turn, exc: BaseException) -> Mapping[str, Any] | None:
    """Return what a run comes to that ended through no fault of the message; None = the message is charged."""
    wait = timedelta(seconds=conf().backoff_base_seconds)
    if is_nobodys_fault(exc):
        return {"kind": OutcomeKind.RELEASED, "delay": wait}
    if turn.source == OUTBOX and isinstance(exc, NotReady):
        return {"kind": OutcomeKind.RELEASED, "delay": max(exc.wait, wait)}
    return None


def is_nobodys_fault(exc: BaseException) -> bool:
    """Say whether the database ended a transaction for the sake of another one, which may happen to any run."""
    states = {exact_text(read(error, "sqlstate")) for error in (exc, read(exc, "__cause__"))}
    return not states.isdisjoint((DEADLOCK, SERIALIZATION_FAILURE))


def _decided(decision: Decision, failure: Failure) -> dict[str, Any]:
    return {
        "kind": decision.kind,
        "dead": decision.dead,
        "reason": decision.reason,
        "delay": decision.delay,
        "failure": failure,
    }
