"""Events, the delivery log, and what the queues keep about themselves."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest

from queues.admin.reading import MAX_LINE, MAX_TEXT, ReadingAdmin, masked, table
from queues.models import (
    Arrival,
    DeadLetterSubscription,
    DeliveryLogEntry,
    Destination,
    FlowDelta,
    FlowTotal,
    PerspectiveCursor,
    PerspectiveSubscription,
    SeenMessage,
    ServiceInstance,
    StoredEvent,
)
from queues.words.redaction import mask_text
from queues.words.text import cut

MAX_ROWS = 100
"""Rows of another table that are shown on a page."""


def cursor_table(rows: QuerySet[PerspectiveCursor]) -> str:
    """Return cursors as a table, at most MAX_ROWS."""
    columns = ("perspective_name", "version", "last_event_id", "processed_at", "error")
    found = rows.order_by("stream_id", "perspective_name").values_list(*columns)[:MAX_ROWS]
    return table(
        ("perspective", "version", "last event", "at", "error"),
        [(*rest, mask_text(cut(error or "", MAX_LINE))) for *rest, error in found],
    )


@admin.register(StoredEvent)
class StoredEventAdmin(ReadingAdmin):
    heavy = ("event_data", "metadata", "scope", "envelope_raw")
    searched = ("event_id", "stream_id", "aggregate_id")
    ordering = ("-event_id",)
    list_display = ("event_id", "event_type", "stream_id", "version", "created_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [*super().get_fields(request, obj), "cursors"]

    @admin.display(description="perspectives of its stream")
    def cursors(self, event: StoredEvent) -> str:
        """Return how far each perspective is in the event's stream."""
        return cursor_table(PerspectiveCursor.objects.filter(stream_id=event.stream_id))


@admin.register(DeliveryLogEntry)
class DeliveryLogAdmin(ReadingAdmin):
    heavy = ("failure_detail",)
    searched = ("message_id",)
    ordering = ("-id",)
    list_display = (
        "logged_at", "source", "message_id", "attempt", "outcome", "duration_ms", "generation",
        masked("failure_message", limit=MAX_LINE),
    )  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names = [name for name in super().get_fields(request, obj) if name != "failure_message"]
        return [*names, masked("failure_message")]


@admin.register(SeenMessage)
class SeenMessageAdmin(ReadingAdmin):
    searched = ("message_id",)
    ordering = ("-message_id",)
    list_display = ("message_id", "first_seen_at", "observation_count")


@admin.register(ServiceInstance)
class ServiceInstanceAdmin(ReadingAdmin):
    heavy = ("metadata",)
    searched = ("instance_id",)
    ordering = ("-last_heartbeat_at", "-instance_id")
    list_display = ("instance_id", "service_name", "host_name", "process_id", "started_at", "last_heartbeat_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [*super().get_fields(request, obj), "tells"]

    @admin.display(description="tells of itself")
    def tells(self, instance: ServiceInstance) -> str:
        """Return the instance's metadata as text, which a foreign writer may nest deeper than Python parses."""
        told = ServiceInstance.objects.filter(pk=instance.pk).values_list(Cast("metadata", TextField()), flat=True)
        return mask_text(cut(told.first() or "", MAX_TEXT))


@admin.register(Arrival)
class ArrivalAdmin(ReadingAdmin):
    searched = ("id",)
    ordering = ("-id",)
    list_display = ("id", "queue", "stream_id")


@admin.register(FlowTotal)
class FlowTotalAdmin(ReadingAdmin):
    searched = ("source",)
    ordering = ("source",)
    list_display = ("source", "sent", "returned", "succeeded", "died", "removed")


@admin.register(FlowDelta)
class FlowDeltaAdmin(ReadingAdmin):
    searched = ("id",)
    ordering = ("-id",)
    list_display = ("id", "source", "sent", "returned", "succeeded", "died", "removed")


@admin.register(Destination)
class DestinationAdmin(ReadingAdmin):
    searched = ("name",)
    ordering = ("name",)
    list_display = ("name", "state", "failures", "opened_at", "retry_at", "changed_at")
    list_filter = ("state",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names = [name for name in super().get_fields(request, obj) if name != "last_error"]
        return [*names, masked("last_error")]


@admin.register(PerspectiveSubscription)
class PerspectiveSubscriptionAdmin(ReadingAdmin):
    searched = ("event_type",)
    ordering = ("perspective_name", "event_type")
    list_display = ("perspective_name", "event_type", "created_at")


@admin.register(DeadLetterSubscription)
class DeadLetterSubscriptionAdmin(ReadingAdmin):
    searched = ("message_type",)
    ordering = ("message_type",)
    list_display = ("message_type", "created_at")
