"""Writes what came of a group, in the group's transaction: letters first, then streams, rows and the log."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from random import random
from uuid import UUID

import structlog
from django.db import Error as DatabaseError
from django.db import transaction

from queues import instances, reactions
from queues.conf import conf, dead_letter_store
from queues.drainer.runs import Result
from queues.store.claims import Claimed, Held
from queues.store.events import Move, advance
from queues.store.outcomes import Change, Event, append_log, record
from queues.words.backoff import backoff
from queues.words.dead_letters import Death, Settlement
from queues.words.errors import ClaimLost
from queues.words.failures import Failure
from queues.words.outcomes import OutcomeKind, used
from queues.words.sources import Queue

log = structlog.get_logger(__name__)


def write(results: Sequence[Result], token: UUID) -> None:
    """Record the results under the claim's token, or raise ClaimLost and leave all to the caller's rollback."""
    if not results:
        return
    queue = results[0].turn.queue
    store = dead_letter_store()
    lock_letters(result.turn.row for result in results)
    held = _fenced(queue, token, results)
    dead = [result for result in results if result.dead is not None and store is not None]
    staying = [result for result in results if result.dead is None or store is None]
    _move(dead, queue.source, token)
    done = [result.turn.row.message_id for result in staying if result.kind is OutcomeKind.SUCCESS]
    changes = [_change(result) for result in staying if result.kind is not OutcomeKind.SUCCESS]
    if not record(held, done=done, changes=changes) or not _advance(queue, staying):
        raise ClaimLost
    _log(queue.source, results)
    if store is not None:
        store.settle(list(_settlements(staying)))


def _fenced(queue: Queue, token: UUID, results: Iterable[Result]) -> Held:
    """Lock the streams of the results; rows are asked for their leases by the statements that write them."""
    held = replace(Held.of(queue, token, [result.turn.row for result in results]), messages=())
    if held.streams and not held.is_held():
        raise ClaimLost
    return held


def _advance(queue: Queue, results: Iterable[Result]) -> bool:
    """Move each cursor over all events that were applied; False = one is not where it was before them."""
    moves: dict[UUID, Move] = {}
    for move in (r.move for r in results if r.move is not None and r.kind is OutcomeKind.SUCCESS):
        first = moves.get(move.stream_id, move)
        moves[move.stream_id] = move._replace(at=first.at)
    return queue.perspective is None or advance(queue.perspective, moves.values())


def lock_letters(rows: Iterable[Claimed]) -> None:
    """Lock the dead letters that the rows were re-emitted from: they are locked before anything else."""
    letters = sorted(row.dead_letter_id for row in rows if row.dead_letter_id is not None)
    store = dead_letter_store()
    if store is not None:
        store.lock(letters)


def _move(dead: Sequence[Result], source: str, token: UUID) -> None:
    """Move the dead; a failure that cannot be stored is cut down until it fits."""
    if not dead:
        return
    for shrink in (_whole, _message_only, _unrecordable):
        try:
            with transaction.atomic():
                _move_once([shrink(result) for result in dead], source, token)
            return
        except DatabaseError as exc:
            if shrink is _unrecordable:
                raise
            log.warning("dead_letter_move_cut_down", source=source, error=str(exc)[:200])


def _move_once(dead: Sequence[Result], source: str, token: UUID) -> None:
    store = dead_letter_store()
    assert store is not None
    moved = store.move([_death(result, source, token) for result in dead])
    if any(moved.get(result.turn.row.message_id) is None for result in dead):
        raise ClaimLost
    reactions.wake()
    for result in dead:
        row = result.turn.row
        log.info(
            "dead_lettered",
            source=source,
            message_id=str(row.message_id),
            dead_letter_id=str(moved[row.message_id]),
            cause=str(result.dead),
            attempt=result.attempts,
        )


def _whole(result: Result) -> Result:
    return result


def _message_only(result: Result) -> Result:
    failure = result.failure
    return replace(result, failure=failure and Failure(message=failure.message), last_reported=None)


def _unrecordable(result: Result) -> Result:
    return replace(result, failure=Failure(message="The failure could not be recorded."), last_reported=None)


def _death(result: Result, source: str, token: UUID) -> Death:
    assert result.dead is not None
    return Death(
        source=source,
        source_id=result.turn.row.message_id,
        cause=result.dead,
        reason=result.reason,
        failure=result.failure,
        last_reported=result.last_reported,
        attempts=result.attempts,
        instance_id=instances.current().id,
        generation=conf().generation,
        lease_token=token,
        holds=result.turn.holds,
    )


def _change(result: Result) -> Change:
    turn, row = result.turn, result.turn.row
    delayed = result.kind is OutcomeKind.DELAYED
    released = result.kind is OutcomeKind.RELEASED
    return Change(
        message_id=row.message_id,
        attempts=result.attempts,
        delays=row.delays + delayed,
        releases=turn.releases + (result.attempts - row.attempts if released else 0),
        due_in=due_in(result),
        failure=None if delayed else result.failure,
        reason=result.reason,
    )


def due_in(result: Result) -> timedelta:
    """Return how long the message waits: what it asked for, else the back-off of its failures."""
    if result.delay is not None:
        return result.delay
    turn = result.turn
    return backoff(
        used(result.attempts, turn.row.delays, turn.releases),
        base=timedelta(seconds=conf().backoff_base_seconds),
        factor=conf().backoff_factor,
        cap=timedelta(seconds=conf().backoff_max_seconds),
        spread=random(),  # noqa: S311 - spreads load, guards nothing
    )


def _log(source: str, results: Iterable[Result]) -> None:
    mode = conf().log_mode(source)
    events = [_event(result) for result in results if _is_logged(result, mode)]
    if not append_log(source, events, worker=instances.current().id, generation=conf().generation):
        log.error("delivery_log_not_written", source=source, events=len(events))


def _is_logged(result: Result, mode: str) -> bool:
    if not result.ran and result.kind is OutcomeKind.FAILURE:
        return False  # dead by a cap that was lowered: this turn had no run of its own
    if result.turn.row.dead_letter_id is not None or mode == "all":
        return True
    return mode == "failures" and result.kind is not OutcomeKind.SUCCESS


def _event(result: Result) -> Event:
    row = result.turn.row
    return Event(
        message_id=row.message_id,
        life=row.life,
        attempt=result.attempts,
        outcome=result.kind,
        failure=result.failure,
        started_at=result.started_at,
        duration_ms=result.duration_ms,
    )


def _settlements(results: Iterable[Result]) -> Iterable[Settlement]:
    for result in results:
        letter = result.turn.row.dead_letter_id
        if letter is not None and result.kind in (OutcomeKind.SUCCESS, OutcomeKind.DELAYED):
            yield Settlement(
                dead_letter_id=letter, outcome=result.kind, due_in=result.delay, skipped=result.was_applied
            )
