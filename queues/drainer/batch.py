"""One claim, run to its end: groups that share a commit, runs that stand alone, the rest given back."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections, transaction

from queues import circuits
from queues.conf import conf
from queues.drainer import recording
from queues.drainer.runners import turns_of
from queues.drainer.runs import (
    ConnectionBroken,
    Result,
    drop_session,
    failed,
    given_back,
    is_nobodys_fault,
    run_atomic,
    run_plain,
)
from queues.drainer.speed import Kind, is_slow, note_duration
from queues.drainer.turns import Turn, Work
from queues.drainer.verdicts import before_run
from queues.drainer.watch import Watch
from queues.runfile import RunFile
from queues.store import claims
from queues.store.bodies import Body, bodies
from queues.store.claims import Claimed, Held
from queues.words.errors import ClaimLost
from queues.words.outcomes import OutcomeKind
from queues.words.sources import Queue

log = structlog.get_logger(__name__)

SAVEPOINTS_AT_MOST = 50
"""In one transaction: of more than 64 the server keeps no list at hand, which every other reader pays for."""


class Item:
    """One claimed message; `index` is its place in the claim."""

    __slots__ = ("index", "kind", "row", "runs_alone", "turn")

    def __init__(self, index: int, turn: Turn) -> None:
        self.index, self.turn, self.row = index, turn, turn.row
        self.kind: Kind = (turn.queue, turn.row.message_type)
        self.runs_alone = turn.runs_alone


@dataclass
class Batch:
    """The messages of one claim. `counts` says what came of those that were recorded."""

    queue: Queue
    token: UUID
    rows: list[Claimed]
    run_file: RunFile
    watch: Watch
    stopping: Callable[[], bool]
    counts: Counter[OutcomeKind] = field(default_factory=Counter)
    _waiting_streams: set[UUID] = field(default_factory=set)
    _bodies: dict[UUID, Body] = field(default_factory=dict)
    _cursors: dict[UUID, int] = field(default_factory=dict)
    """Of streams, the versions to which their cursors have moved since the bodies were read."""
    _settled: set[int] = field(default_factory=set)
    """Their positions."""
    _claimed_at: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Run what can run, and give the rest back."""
        held = Held.of(self.queue, self.token, self.rows)
        self.run_file.claimed(held)
        self.watch.hold(held)
        try:
            self._run_all()
            circuits.write()
        finally:
            self.watch.hold(None)
            left = [row.message_id for row in self.rows if row.position not in self._settled]
            replace(held, messages=tuple(left)).release()

    def give_back(self) -> None:
        """Give everything back without running anything."""
        Held.of(self.queue, self.token, self.rows).release()

    def _run_all(self) -> None:
        waiting = deque(Item(n, turn) for n, turn in enumerate(turns_of(self.queue, self.rows)))
        while waiting and not self._must_stop(waiting[0]):
            if waiting[0].runs_alone:
                self._run_alone(waiting.popleft())
            elif not self._run_group(waiting):
                return

    def _must_stop(self, item: Item) -> bool:
        """Stop when asked, and when what is left has waited so long that others should have it."""
        return self.stopping() or (item.index > 0 and time.monotonic() - self._claimed_at > conf().give_back_seconds)

    # --- groups

    def _run_group(self, waiting: deque[Item]) -> bool:
        """Run messages off the queue under one commit; False = the connection went, nothing more can run."""
        taken: list[Item] = []
        try:
            self._settle(self._commit_group(waiting, taken))
        except Exception as exc:
            if broke := _broke_in(exc):
                self._after_broken_connection(broke)
                return False
            log.warning("group_rerun", queue=self.queue.name, messages=len(taken), error=str(exc)[:200])
            drop_session()
            self._forget()
            for item in taken:
                self._run_alone(item)
        return True

    def _commit_group(self, waiting: deque[Item], taken: list[Item]) -> list[Result]:
        results: list[Result] = []
        held_back = set(self._waiting_streams)
        run = _run_here()
        with transaction.atomic():
            for item in self._members(waiting, results):
                taken.append(item)  # also one that waits: should the group run again, it comes before those behind it
                if item.row.stream_id in held_back:
                    continue
                result = self._turn(item, run)
                if result is not None:
                    results.append(result)
                    if result.kind is not OutcomeKind.SUCCESS:
                        held_back |= _held_back_by(result)
            recording.write(results, self.token)
            _make_callbacks_robust()
        return results

    def _members(self, waiting: deque[Item], results: list[Result]) -> Iterator[Item]:
        """Take messages off the queue until the group is full, is long, or the next one should not be in it."""
        size = _Size()
        while waiting and size.results < conf().group_messages and not waiting[0].runs_alone:
            if results and (self.stopping() or size.is_full or results[-1].changed_session or is_slow(waiting[0].kind)):
                return
            yield waiting.popleft()
            if len(results) > size.results:
                size.add(results[-1])

    # --- alone

    def _run_alone(self, item: Item) -> None:
        """Run one message in a transaction of its own, its start recorded first."""
        if item.row.stream_id in self._waiting_streams:
            return
        certain = self._certain_or_failed(item)
        if isinstance(certain, Result):
            self._record(certain)
        elif certain is not None and self._start(item):
            self._run_started(item, certain)

    def _certain_or_failed(self, item: Item) -> Work | Result | None:
        """Return what is certain; that the database cannot read the message is the message's own failure."""
        try:
            return self._certain(item)
        except DatabaseError as exc:
            if not connection.is_usable():
                raise
            log.warning("body_not_read", message_id=str(item.row.message_id), error=str(exc)[:200])
            attempts, now = item.row.attempts + 1, datetime.now(UTC)
            return Result(turn=item.turn, attempts=attempts, started_at=now, **failed(item.turn, exc))

    def _start(self, item: Item) -> bool:
        is_held = claims.start(self.queue, token=self.token, message_id=item.row.message_id)
        if not is_held:
            log.warning("claim_lost", queue=self.queue.name, message_id=str(item.row.message_id))
        return is_held

    def _run_started(self, item: Item, work: Work) -> None:
        assert item.turn.runner is not None
        if not item.turn.runner.atomic:
            result = self._run(item, work, run_plain)
            connection.close_if_unusable_or_obsolete()
            self._record(result)
            return
        ran: list[Result] = []
        try:
            with transaction.atomic():
                ran.append(self._run(item, work, _run_here()))
                recording.write(ran, self.token)
                _make_callbacks_robust()
        except ClaimLost:
            self._forget()
            log.warning("claim_lost", queue=self.queue.name, message_id=str(item.row.message_id))
        except Exception as exc:
            self._forget()
            if broke := _broke_in(exc):
                self._after_broken_connection(broke)
                return
            if not ran:  # nothing was run: the fault is the database's or ours, and the recorded start says the rest
                raise
            log.warning("not_recorded", message_id=str(item.row.message_id), error=str(exc)[:200])
            drop_session()
            self._record(_when_recording_failed(ran[0], exc))
        else:
            self._settle(ran)

    # --- one message

    def _turn(self, item: Item, run: Callable[[Turn, Work], Result]) -> Result | None:
        """Return what comes of one message, run or not; None = its row is gone."""
        certain = self._certain(item)
        return certain if certain is None or isinstance(certain, Result) else self._run(item, certain, run)

    def _certain(self, item: Item) -> Work | Result | None:
        body = self._body(item)
        if body is None:
            return None
        moved_to = self._cursors.get(item.row.stream_id) if item.row.stream_id else None
        return before_run(item.turn, body if moved_to is None else body._replace(cursor=moved_to))

    def _run(self, item: Item, work: Work, run: Callable[[Turn, Work], Result]) -> Result:
        assert item.turn.runner is not None
        try:
            with self.run_file.running(item.index):
                self.watch.begins(item.row, item.turn.runner.time_limit.total_seconds())
                result = run(item.turn, work)
        except ConnectionBroken as exc:
            raise _Broke(item, exc.__cause__ or exc, exc.started_at) from exc
        finally:
            self.watch.ends()
        note_duration(item.kind, result.duration_ms or 0)
        if result.move is not None and result.kind is OutcomeKind.SUCCESS:
            self._cursors[result.move.stream_id] = result.move.version
        return result

    def _body(self, item: Item) -> Body | None:
        """Return the body, fetching it with those behind it under a byte budget; None = the row is gone."""
        body = self._bodies.get(item.row.message_id)
        if body is None:
            self._bodies = self._read([row.message_id for row in self._portion(item.index)])
            body = self._bodies.get(item.row.message_id)
        return body

    def _forget(self) -> None:
        """Forget what was read and done since: it was rolled back."""
        self._bodies.clear()
        self._cursors.clear()

    def _read(self, message_ids: list[UUID]) -> dict[UUID, Body]:
        """Read bodies; if that fails, the first one only. A failure in a group is the group's: it runs again alone."""
        try:
            return bodies(self.queue.source, message_ids)
        except DatabaseError:
            if connection.in_atomic_block:
                raise
            return bodies(self.queue.source, message_ids[:1])

    def _portion(self, start: int) -> Iterator[Claimed]:
        size = 0
        for row in self.rows[start : start + conf().group_messages]:
            size += row.body_bytes
            if size > conf().claim_bytes and row is not self.rows[start]:
                return
            yield row

    # --- afterwards

    def _settle(self, results: list[Result]) -> None:
        """Take note of what was committed."""
        if any(result.changed_session for result in results):
            drop_session()
        self.counts.update(result.kind for result in results)
        for result in results:
            self._settled.add(result.turn.row.position)
            if result.kind is not OutcomeKind.SUCCESS:
                self._waiting_streams |= _held_back_by(result)

    def _record(self, result: Result) -> None:
        """Record one result in a transaction of its own; a death that cannot be recorded waits and is reported."""
        try:
            with transaction.atomic():
                recording.write([result], self.token)
        except ClaimLost:
            log.warning("claim_lost", queue=self.queue.name, message_id=str(result.turn.row.message_id))
            return
        except Exception as exc:
            if result.dead is None:
                self._note_unrecorded(result)
                raise
            log.exception("dead_letter_move_failed", message_id=str(result.turn.row.message_id), error=str(exc)[:200])
            self._record(replace(result, dead=None))
            return
        self._settle([result])

    def _note_unrecorded(self, result: Result) -> None:
        """Leave a run that counts, and that the database could not be told of, to the next sweep."""
        if result.ran and result.kind is not OutcomeKind.RELEASED:
            self.run_file.unrecorded(self.rows.index(result.turn.row))

    def _after_broken_connection(self, broke: "_Broke") -> None:
        """Charge the message that was running when the connection went; the others are given back."""
        drop_session()
        log.warning("connection_lost_in_handler", message_id=str(broke.item.row.message_id))
        turn = broke.item.turn
        attempts, outcome = turn.row.attempts + 1, failed(turn, broke.cause)
        self._record(Result(turn=turn, attempts=attempts, started_at=broke.started_at, **outcome))


def _run_here() -> Callable[[Turn, Work], Result]:
    """Return what runs messages in the transaction of this thread."""
    return partial(run_atomic, shared=connections[DEFAULT_DB_ALIAS])


class _Broke(Exception):
    """A handler took the connection with it."""

    def __init__(self, item: Item, cause: BaseException, started_at: datetime) -> None:
        super().__init__(str(cause))
        self.item, self.cause, self.started_at = item, cause, started_at


def _broke_in(exc: BaseException | None) -> _Broke | None:
    """Return the break behind an error: what leaves a transaction connects again, and raises its own when it cannot."""
    while exc is not None and not isinstance(exc, _Broke):
        exc = exc.__context__
    return exc


def _when_recording_failed(result: Result, exc: Exception) -> Result:
    """Return what a run comes to whose recording failed, so that its work is rolled back.

    What it reported stands. A success does not: a deadlock is nobody's fault, anything else the run's.
    """
    if result.kind is not OutcomeKind.SUCCESS:
        return result
    if is_nobodys_fault(exc):
        return given_back(result.turn)
    return replace(result, **failed(result.turn, exc))


def _held_back_by(result: Result) -> set[UUID]:
    """Return the stream that waits behind a message which has not succeeded, unless it is dead and holds nothing."""
    holds = result.dead is None or result.turn.holds
    stream = result.turn.row.stream_id
    return {stream} if holds and stream is not None else set()


@dataclass
class _Size:
    """What a group's runs have come to so far."""

    results: int = 0
    spent_ms: int = 0
    savepoints: int = 0

    def add(self, result: Result) -> None:
        """Count one more."""
        self.results += 1
        self.spent_ms += result.duration_ms or 0
        self.savepoints += result.used_savepoint

    @property
    def is_full(self) -> bool:
        return self.spent_ms > conf().group_ms or self.savepoints >= SAVEPOINTS_AT_MOST


def _make_callbacks_robust() -> None:
    """Let each on-commit callback of the group fail for itself: the others still run, and it is logged."""
    pending: list[Any] = connection.run_on_commit  # (savepoints, callback, robust); the stubs know only two
    robust: list[Any] = [(entry[0], partial(_call_back, entry[1]), True) for entry in pending]
    connection.run_on_commit = robust


def _call_back(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException as exc:  # the group is committed: nothing that a callback raises may end the drain
        log.exception("on_commit_failed", error=str(exc)[:200])
