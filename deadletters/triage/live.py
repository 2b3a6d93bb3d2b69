"""What people do to messages that are alive, and to streams that a dead letter holds."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from deadletters.queries.live import WORK, handler_of
from deadletters.store import audit
from deadletters.store.audit import Actor
from deadletters.store.letters import Store, move_by_hand
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadChange, NoSuchMessage
from queues import reactions, wakeups
from queues.models import Source, Stream
from queues.store import live
from queues.store.live import Started, Stopped
from queues.words.handlers import AfterDeath
from queues.words.sources import Queue
from queues.words.text import storable

MAX_REASON = 2_000
"""Characters of a reason."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A live message that became a dead letter."""

    dead_letter_id: UUID


@transaction.atomic
def run_now(*, source: str, message_id: UUID, user: Any, reason: str = "") -> Started:
    """Make a waiting message due now, a stopped one too. Raises PermissionDenied, NoSuchMessage."""
    by = actor(user, access.RECOVER)
    before = _found(source, message_id)
    started = live.run_now(source, message_id)
    if started is None:
        raise NoSuchMessage(str(message_id))
    if started is not Started.IN_FLIGHT:
        _record(by, "run_now", source, message_id, before, {"outcome": str(started)}, reason)
        wakeups.wake(source)
    return started


@transaction.atomic
def stop(*, source: str, message_id: UUID, user: Any, reason: str = "") -> Stopped:
    """Park a message until somebody runs it; a claim of it is revoked. Raises PermissionDenied, NoSuchMessage.

    What runs of it ends without effect on the database and without being counted.
    """
    by = actor(user, access.TRIAGE)
    before = _found(source, message_id)
    stopped = live.stop(source, message_id)
    if stopped is None:
        raise NoSuchMessage(str(message_id))
    if stopped is not Stopped.ALREADY:
        _record(by, "stop", source, message_id, before, {"outcome": str(stopped)}, reason)
        wakeups.wake(source)  # its stream was given up with it: what others of the stream ran runs again
    return stopped


@transaction.atomic
def dead_letter(*, source: str, message_id: UUID, user: Any, reason: str) -> Moved:
    """Dead-letter a message, waiting or in flight; the reason stands before the failure that it had.

    Raises PermissionDenied, BadChange without a reason, NoSuchMessage when it is not in the queue (any more).
    """
    by = actor(user, access.TRIAGE)
    said = _reason(reason)
    if not said:
        raise BadChange("reason", "must say why, for those who find the letter")
    before = _found(source, message_id)
    Store().lock([before.dead_letter_id] if before.dead_letter_id else [])
    live.lock_stream_of(source, message_id)
    holds = _holds(source, message_id)
    letter_id = move_by_hand(source, message_id, reason=before.failure_reason, error=said, holds=holds)
    if letter_id is None:
        raise NoSuchMessage(str(message_id))
    wakeups.wake(source)
    reactions.wake()
    _record(by, "dead_letter", source, message_id, before, {}, said, dead_letter_id=letter_id)
    return Moved(dead_letter_id=letter_id)


@transaction.atomic
def let_stream_go(*, queue: str, stream_id: UUID, held_by: UUID, user: Any, reason: str = "") -> bool:
    """Let a stream go on past the dead letter that holds it; False = that letter does not hold it (any more).

    Raises PermissionDenied.
    """
    by = actor(user, access.TRIAGE)
    held = Stream.objects.filter(queue=queue, stream_id=stream_id, held_by=held_by)
    if not held.select_for_update().values_list("held_by", flat=True).exists():
        return False
    live.let_stream_go(queue, stream_id)
    before = {"queue": queue, "stream_id": str(stream_id), "held_by": str(held_by)}
    audit.record(
        actor=by, action="let_stream_go", dead_letter_id=held_by, before=before, after={}, reason=_reason(reason)
    )
    named = Queue.named(queue)
    if named.is_known:
        wakeups.wake(named.source)
    return True


def _found(source: str, message_id: UUID) -> Any:
    """Return the row without its bodies, as it is before the action."""
    columns = ("attempts", "delays", "releases", "scheduled_for", "dead_letter_id", "failure_reason")
    found = WORK[source]._default_manager.filter(pk=message_id, processed_at=None).only(*columns).first()
    if found is None:
        raise NoSuchMessage(str(message_id))
    return found


def _holds(source: str, message_id: UUID) -> bool | None:
    """Say whether the message's stream waits behind it once it is dead; None = no code here says so."""
    if source == Source.OUTBOX:
        return None
    column = "message_type" if source == Source.INBOX else "perspective_name"
    name = WORK[source]._default_manager.filter(pk=message_id).values_list(column, flat=True).first()
    handler = handler_of(source, str(name))
    return None if handler is None else handler.after_death is AfterDeath.HOLD


def _record(
    by: Actor,
    action: str,
    source: str,
    message_id: UUID,
    before: Any,
    after: dict[str, Any],
    reason: str,
    *,
    dead_letter_id: UUID | None = None,
) -> None:
    due = before.scheduled_for.isoformat()
    audit.record(
        actor=by,
        action=action,
        message_id=message_id,
        dead_letter_id=dead_letter_id,
        before={"source": source, "attempts": before.attempts, "scheduled_for": due},
        after={"source": source, **after},
        reason=_reason(reason),
    )


def _reason(reason: str) -> str:
    return storable(reason.replace("\r\n", "\n").strip())[:MAX_REASON]
