"""What is certain about a claimed message before its handler runs."""

import json
from datetime import timedelta

import structlog

from queues import instances
from queues.conf import conf
from queues.drainer.runs import Result, log_loss, lost
from queues.drainer.turns import Turn, Work
from queues.store.bodies import Body
from queues.words.errors import EventMissing, PayloadUnreadable, Unhandled
from queues.words.failures import Failure
from queues.words.outcomes import Cause, FailureReason, OutcomeKind

log = structlog.get_logger(__name__)


def before_run(turn: Turn, body: Body) -> Work | Result:
    """Return the work to do, or the outcome that is certain without it."""
    if turn.row.was_started:
        log_loss(turn)
    if turn.is_spent:
        return _spent(turn, body)
    if turn.runner is None:
        return _unhandled(turn, body)
    try:
        return turn.runner.prepare(turn, body)
    except Unhandled:
        return _unhandled(turn, body)
    except EventMissing as exc:
        return _certain_death(turn, Cause.UNREADABLE, Failure(message=str(exc)))
    except PayloadUnreadable as exc:
        return _certain_death(turn, Cause.UNREADABLE, Failure(message=f"The payload cannot be read: {exc}"))


def _spent(turn: Turn, body: Body) -> Result:
    """Return the death of a message whose budget was spent before this turn: lost, or capped lower meanwhile."""
    if turn.was_lost:
        return lost(turn, last_reported=body.error)
    return Result(
        turn=turn,
        kind=OutcomeKind.FAILURE,
        attempts=turn.row.attempts,
        dead=Cause.BUDGET_SPENT,
        reason=_reason(turn),
        failure=_stored(body),
    )


def _stored(body: Body) -> Failure | None:
    """Return the last failure that was recorded; None = none was, which is not an empty one."""
    structure = _structure(body.failure_detail)
    return None if body.error is None and structure is None else Failure.from_stored(body.error, structure)


def _reason(turn: Turn) -> FailureReason:
    stored = turn.row.failure_reason
    known = stored in set(FailureReason) and stored != FailureReason.UNKNOWN
    return FailureReason(stored) if known else FailureReason.MAX_ATTEMPTS_EXCEEDED


def _structure(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        structure = json.loads(text)
    except (ValueError, RecursionError):
        log.warning("failure_detail_unreadable")
        return None
    return structure if isinstance(structure, dict) else None


def _unhandled(turn: Turn, body: Body) -> Result:
    """Return a release while another live process runs such messages (a rolling deploy), else the death."""
    message_type, perspective = body.message_type or turn.row.message_type, turn.queue.perspective
    if instances.is_handled_somewhere(message_type, perspective):
        wait = timedelta(seconds=conf().tick_seconds)
        return Result(turn=turn, kind=OutcomeKind.RELEASED, attempts=turn.row.attempts, delay=wait)
    text = f"No live worker handles messages of type {message_type}."
    if perspective is not None:
        text = f"No live worker applies events of type {message_type} to the perspective {perspective}."
    return _certain_death(turn, Cause.NO_HANDLER, Failure(message=text))


def _certain_death(turn: Turn, cause: Cause, failure: Failure) -> Result:
    reason = FailureReason.SERIALIZATION_ERROR if cause is Cause.UNREADABLE else FailureReason.UNKNOWN
    return Result(
        turn=turn,
        kind=OutcomeKind.TERMINAL,
        attempts=turn.row.attempts,
        dead=cause,
        reason=reason,
        failure=failure,
    )
