"""Reads of one message that is alive, with its body, and of what became of one that is not."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, TextField
from django.db.models.functions import Cast

from deadletters.models import DeadLetter
from deadletters.queries.live import Live, annotated, around, lives_of
from deadletters.words.errors import NoSuchMessage
from queues.models import StoredEvent
from queues.store.live import clock
from queues.words.sources import PERSPECTIVES

_BODY = ("event_data", "metadata", "envelope_bytes")


@dataclass(frozen=True, kw_only=True)
class Detail:
    """One message with its body, as JSON texts; the failure's structure too."""

    live: Live
    error: str | None
    failure_detail: str | None
    message_type: str
    event_data: str | None
    metadata: str
    body_bytes: int | None
    now: datetime


def get(source: str, message_id: UUID) -> Detail:
    """Return one message; raises NoSuchMessage."""
    now = clock()
    whole = annotated(source, now).filter(pk=message_id)
    found = whole.annotate(whole_error=F("error"), failure_text=Cast("failure_detail", TextField())).first()
    if found is None:
        raise NoSuchMessage(str(message_id))
    (live,) = lives_of(source, [found], around(source, [found], now))
    body = _body(source, found)
    return Detail(live=live, error=found.whole_error, failure_detail=found.failure_text, now=now, **body)


def letter_of(source: str, message_id: UUID) -> UUID | None:
    """Return the dead letter that a message became, if it did."""
    letters = DeadLetter.objects.filter(source_table=source, source_id=message_id, superseded_by=None)
    return letters.values_list("dead_letter_id", flat=True).first()


def _body(source: str, row: Any) -> dict[str, Any]:
    """Return the body of a message; an event's is in the event store."""
    if source == PERSPECTIVES:
        event = StoredEvent.objects.defer("envelope_raw").filter(event_id=row.event_id).first()
        if event is None:
            return {"message_type": "", "event_data": None, "metadata": "{}", "body_bytes": None}
        kept, message_type = event, event.event_type
    else:
        row.refresh_from_db(fields=_BODY)
        kept, message_type = row, row.message_type
    return {
        "message_type": message_type,
        "event_data": kept.event_data,
        "metadata": kept.metadata,
        "body_bytes": kept.envelope_bytes,
    }
