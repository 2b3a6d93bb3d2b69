"""What waits: inbox, outbox and perspective events. Bodies are neither read nor shown."""

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest

from queues.admin.reading import MAX_LINE, ReadingAdmin, masked, table
from queues.admin.records import cursor_table
from queues.models import InboxMessage, OutboxMessage, PerspectiveCursor, PerspectiveEvent, Stream

BODIES = ("event_data", "metadata", "scope", "envelope_raw", "failure_detail")


class WorkAdmin(ReadingAdmin):
    """A work table in the order of its ids: an index by time, which each claim would have to keep, is too dear."""

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names = [name for name in super().get_fields(request, obj) if name != "error"]
        return [*names, masked("error"), "stream"]

    @admin.display(description="stream in its queue")
    def stream(self, row: Any) -> str:
        """Return the lease and the holder of the row's stream, when it has one."""
        columns = ("due_at", "instance_id", "lease_expiry", "held_by", "version")
        found = Stream.objects.filter(queue=self.queue_of(row), stream_id=row.stream_id)
        return table(("due", "leased by", "until", "held by", "version"), list(found.values_list(*columns)))

    def queue_of(self, row: Any) -> str:
        """Return the queue under which the row's stream is kept."""
        return str(row._meta.db_table)


class MessageAdmin(WorkAdmin):
    heavy = BODIES
    searched = ("message_id", "stream_id")
    ordering = ("-message_id",)

    def matching(self, term: str) -> Q:
        """Return which rows a search finds; by stream only those that wait, since the index holds no others."""
        return self.found_by(term, ("message_id",)) | Q(self.found_by(term, ("stream_id",)), processed_at=None)


@admin.register(InboxMessage)
class InboxMessageAdmin(MessageAdmin):
    list_display = (
        "message_id", "message_type", "received_at", "scheduled_for", "attempts", "delays", "lease_expiry",
        masked("error", limit=MAX_LINE),
    )  # fmt: skip


@admin.register(OutboxMessage)
class OutboxMessageAdmin(MessageAdmin):
    list_display = (
        "message_id", "message_type", "destination", "created_at", "scheduled_for", "attempts", "delays",
        masked("error", limit=MAX_LINE),
    )  # fmt: skip


@admin.register(PerspectiveEvent)
class PerspectiveEventAdmin(WorkAdmin):
    heavy = ("envelope_raw", "failure_detail")
    searched = ("event_work_id", "stream_id")
    ordering = ("-event_work_id",)
    list_display = (
        "event_work_id", "perspective_name", "stream_id", "created_at", "scheduled_for", "attempts",
        masked("error", limit=MAX_LINE),
    )  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [*super().get_fields(request, obj), "cursor"]

    def queue_of(self, row: PerspectiveEvent) -> str:
        return f"{row._meta.db_table}:{row.perspective_name}"

    @admin.display(description="how far the perspective is in the stream")
    def cursor(self, row: PerspectiveEvent) -> str:
        """Return the cursor of the row's perspective in its stream."""
        found = PerspectiveCursor.objects.filter(stream_id=row.stream_id, perspective_name=row.perspective_name)
        return cursor_table(found)
