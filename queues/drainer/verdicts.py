"""What is certain about a claimed message before its handler runs."""

import json
from datetime import timedelta

import structlog

from queues import instances
from queues.conf import conf
from queues.drainer.runs import Result, Turn, log_loss, lost, message_of
from queues.store.claims import Body
from queues.words.errors import PayloadUnreadable
from queues.words.failures import Failure
from queues.words.messages import Message
from queues.words.outcomes import Cause, FailureReason, OutcomeKind

log = structlog.get_logger(__name__)


def before_run(turn: Turn, body: Body) -> Message | Result:
    """Return the message to run, or the outcome that is certain without running it."""
    if turn.row.was_started:
        log_loss(turn)
    if turn.is_spent:
        return _spent(turn, body)
    if turn.handler is None:
        return _without_handler(turn)
    try:
        return message_of(turn, body)
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
        failure=Failure.from_stored(body.error, _structure(body.failure_detail)),
    )


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


def _without_handler(turn: Turn) -> Result:
    """Return a release while another live process handles the type (a rolling deploy), else the death."""
    message_type = turn.row.message_type
    if instances.is_handled_somewhere(message_type):
        wait = timedelta(seconds=conf().tick_seconds)
        return Result(turn=turn, kind=OutcomeKind.RELEASED, attempts=turn.row.attempts, delay=wait)
    failure = Failure(message=f"No live worker handles messages of type {message_type}.")
    return _certain_death(turn, Cause.NO_HANDLER, failure)


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
