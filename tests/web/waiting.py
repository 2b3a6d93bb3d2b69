"""What the tests of the queues share: messages that wait, the streams and workers that they wait for."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.urls import reverse
from django.utils import timezone

from deadletters.models import DeadLetter
from queues.models import ServiceInstance, Stream
from queues.words.sources import STOPPED_UNTIL
from tests.db.rows import write_row
from tests.factories import a_letter

WORKER = UUID(int=70)


def at(**span: float) -> datetime:
    """Return a time that far from now; one that is past is negative."""
    return timezone.now() + timedelta(**span)


def address(message_id: UUID, name: str = "live_message", source: str = "inbox") -> str:
    """Return the address of a message's page, or of what is done with it."""
    return reverse(f"deadletters:{name}", args=[source, message_id])


def a_message(**columns: Any) -> UUID:
    """Write a message of the inbox without a stream."""
    return write_row("wh_inbox", **{"stream_id": None, **columns})


def a_worker(**named: Any) -> ServiceInstance:
    values = {"service_name": "shop", "host_name": "host-a", "process_id": 7, "instance_id": uuid4(), **named}
    return ServiceInstance.objects.create(**values)


def lease() -> dict[str, Any]:
    """Return the columns of what the worker runs."""
    return {"lease_token": uuid4(), "lease_expiry": at(minutes=1), "instance_id": WORKER}


def a_held_stream(number: int = 1, queue: str = "wh_inbox", **fields: Any) -> DeadLetter:
    letter = a_letter(stream_id=UUID(int=number), **fields)
    Stream.objects.create(queue=queue, stream_id=UUID(int=number), due_at=STOPPED_UNTIL, held_by=letter.pk)
    return letter
