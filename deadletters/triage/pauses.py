"""Pauses of sources, types, perspectives and destinations, and the trial of a destination that is down."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from deadletters.store import audit
from deadletters.triage import changes as values
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import AlreadyPaused, BadChange, NoSuchDestination, NoSuchPause
from queues import wakeups
from queues.models import CircuitState, Destination, PauseKind, PerspectiveSubscription, Source, SourcePause
from queues.store import live
from queues.words.sources import PERSPECTIVES, SOURCES, Queue
from queues.words.text import storable

KINDS: Mapping[str, Sequence[str]] = {
    Source.INBOX: (PauseKind.SOURCE, PauseKind.TYPE),
    Source.OUTBOX: (PauseKind.SOURCE, PauseKind.DESTINATION),
    Source.PERSPECTIVE: (PauseKind.SOURCE, PauseKind.TYPE),
}
"""What can be paused of each source."""

MAX_VALUE = 500
MAX_REASON = 500
MAX_PERSPECTIVES = 1_000
"""Perspectives whose streams are looked at at once when their source is resumed."""


@transaction.atomic
def pause(
    *, source: str, kind: str, value: str = "", user: Any, reason: str = "", until: datetime | None = None
) -> SourcePause:
    """Pause a source, or one type, perspective or destination of it, from the next claim on.

    Raises PermissionDenied, BadChange, and AlreadyPaused with the pause that is in force. One that is over is replaced.
    """
    by = actor(user, access.TRIAGE)
    kept = {"source": source, "kind": kind, "value": value.strip()}
    check_pause(**kept, until=until)
    SourcePause.objects.filter(**kept, until__lte=Now()).delete()
    try:
        with transaction.atomic():
            made = SourcePause.objects.create(**kept, until=until, paused_by=by.name, reason=_reason(reason))
    except IntegrityError as exc:
        raise AlreadyPaused(SourcePause.objects.filter(**kept).first()) from exc
    made.refresh_from_db()
    audit.record(actor=by, action="pause", after=describe(made), reason=made.reason)
    return made


@transaction.atomic
def change_pause(*, pause_id: int, user: Any, reason: str, until: datetime | None) -> SourcePause:
    """Change why and until when something is paused. Raises PermissionDenied, BadChange, NoSuchPause."""
    by = actor(user, access.TRIAGE)
    found = SourcePause.objects.select_for_update().filter(pk=pause_id).first()
    if found is None:
        raise NoSuchPause(str(pause_id))
    before = describe(found)
    if until != found.until:
        _check_until(until)
    found.reason, found.until = _reason(reason), until
    if describe(found) != before:
        found.save(update_fields=["reason", "until"])
        audit.record(actor=by, action="change_pause", before=before, after=describe(found), reason=found.reason)
    return found


@transaction.atomic
def resume(*, pause_id: int, user: Any, reason: str = "") -> SourcePause:
    """End a pause: what waited is claimed from now on. Returns what it was; raises PermissionDenied, NoSuchPause."""
    by = actor(user, access.TRIAGE)
    ended = SourcePause.objects.select_for_update().filter(pk=pause_id).first()
    if ended is None:
        raise NoSuchPause(str(pause_id))
    SourcePause.objects.filter(pk=pause_id).delete()
    live.look_again(_queues_of(ended))
    audit.record(actor=by, action="resume", before=describe(ended), reason=_reason(reason))
    wakeups.wake(ended.source)
    return ended


@transaction.atomic
def try_destination(*, name: str, user: Any, reason: str = "") -> bool:
    """Let a destination whose circuit is not closed be tried at once; False = it is closed, messages flow.

    Raises PermissionDenied, NoSuchDestination.
    """
    by = actor(user, access.TRIAGE)
    found = Destination.objects.select_for_update().filter(name=name).first()
    if found is None:
        raise NoSuchDestination(name)
    if found.state == CircuitState.CLOSED:
        return False
    Destination.objects.filter(pk=found.pk).update(retry_at=Now(), changed_at=Now())
    live.look_again([Source.OUTBOX], found.retry_at)
    before = {"destination": name, "retry_at": found.retry_at and found.retry_at.isoformat()}
    audit.record(actor=by, action="try_destination", before=before, after={"destination": name}, reason=_reason(reason))
    wakeups.wake(Source.OUTBOX)
    return True


def describe(row: SourcePause) -> dict[str, Any]:
    """Return a pause as the audit keeps it."""
    return {
        "source": row.source,
        "kind": row.kind,
        "value": row.value,
        "until": row.until and row.until.isoformat(),
        "paused_by": row.paused_by,
        "reason": row.reason,
    }


def check_pause(*, source: str | None, kind: str | None, value: str | None, until: datetime | None) -> None:
    """Raise BadChange when such a pause cannot be."""
    if source not in SOURCES:
        raise BadChange("source", "must be one of " + ", ".join(SOURCES))
    if kind not in KINDS[source]:
        raise BadChange("kind", "must be one of " + ", ".join(KINDS[source]))
    named = (value or "").strip()
    if (kind == PauseKind.SOURCE) == bool(named):
        raise BadChange("value", "must be empty for a whole source" if named else "must name what is paused")
    if named != storable(named) or len(named) > MAX_VALUE:
        raise BadChange("value", f"must be text of at most {MAX_VALUE:,} characters")
    _check_until(until)


def _check_until(until: datetime | None) -> None:
    if values.moment("until")(until) is not None and until is not None and until <= live.clock():
        raise BadChange("until", "must be in the future")


def _reason(reason: str) -> str:
    return " ".join(storable(reason).split())[:MAX_REASON]


def _queues_of(ended: SourcePause) -> list[str]:
    """Return the queues whose streams may have been put off by a pause."""
    if ended.source != PERSPECTIVES:
        return [ended.source]
    if ended.kind == PauseKind.TYPE:
        return [Queue(source=PERSPECTIVES, perspective=ended.value).name]
    known = PerspectiveSubscription.objects.values_list("perspective_name", flat=True).distinct()
    return [Queue(source=PERSPECTIVES, perspective=name).name for name in known[:MAX_PERSPECTIVES]]
