"""The three work tables: inbox, outbox and perspective events, with the columns that they share."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce, Now

from queues.models.fields import JSONTextField, in_calendar


class Source(models.TextChoices):
    """Where a message waits, and where a dead letter came from."""

    INBOX = "wh_inbox", "Inbox"
    OUTBOX = "wh_outbox", "Outbox"
    PERSPECTIVE = "wh_perspective_events", "Perspectives"
    BROKER = "broker", "Broker"


class WorkRow(models.Model):
    """One waiting or running piece of work.

    Written by the application, by any SQL writer of the database and by a recovery; leaves when its run
    succeeded or when it is dead-lettered. `attempts` counts runs that ended or were charged and never goes down;
    budget used = attempts - delays - releases.
    """

    stream_id = models.UUIDField(null=True)
    partition_number = models.IntegerField(null=True)
    attempts = models.IntegerField(db_default=0)
    error = models.TextField(null=True)
    instance_id = models.UUIDField(null=True)
    lease_expiry = models.DateTimeField(null=True)
    scheduled_for = models.DateTimeField(db_default=Now())
    processed_at = models.DateTimeField(null=True)
    priority = models.IntegerField(null=True)

    position = models.BigIntegerField(editable=False)
    delays = models.IntegerField(db_default=0)
    releases = models.IntegerField(db_default=0)
    suspect = models.BooleanField(db_default=False)
    life = models.IntegerField(db_default=1)
    lease_token = models.UUIDField(null=True)
    started_at = models.DateTimeField(null=True)
    max_attempts = models.IntegerField(null=True)
    max_delays = models.IntegerField(null=True)
    failure_detail = models.JSONField(null=True)
    dead_letter_id = models.UUIDField(null=True)
    recovery_item_id = models.UUIDField(null=True)
    only_generation = models.TextField(null=True)
    envelope_raw = models.BinaryField(null=True)
    envelope_bytes = models.IntegerField(null=True)

    class Meta:
        abstract = True


class MessageRow(WorkRow):
    """A piece of work that brings its own body."""

    message_id = models.UUIDField(primary_key=True)
    message_type = models.CharField(max_length=500)
    event_data = JSONTextField()
    metadata = JSONTextField(db_default=models.Value({}, models.JSONField()))
    scope = JSONTextField(null=True)
    is_event = models.BooleanField(db_default=False)
    flags = models.IntegerField(null=True)
    status = models.IntegerField(db_default=1)
    failure_reason = models.IntegerField(db_default=99)

    class Meta:
        abstract = True


def work_constraints(table: str, *times: str) -> list[models.BaseConstraint]:
    """Return what holds of every work row, whoever writes it; `times`: its own columns beside those of all."""

    def check(name: str, condition: Q) -> models.CheckConstraint:
        return models.CheckConstraint(name=f"{table}_{name}", condition=condition)

    return [
        check("max_attempts_positive_or_unlimited", Q(max_attempts=-1) | Q(max_attempts__gte=1)),
        check("max_delays_not_negative", Q(max_delays__gte=-1)),
        check("counts_not_negative", Q(attempts__gte=0, delays__gte=0, releases__gte=0, life__gte=1)),
        check("times_in_calendar", in_calendar("scheduled_for", "processed_at", "started_at", "lease_expiry", *times)),
        check("lease_is_whole", Q(lease_token=None) | Q(lease_expiry__isnull=False, instance_id__isnull=False)),
    ]


def work_indexes(table: str) -> list[models.Index]:
    """Return the indexes that every work table has."""
    return [
        # The pages: what runs next, when the oldest has been due, what is delayed or stopped. Of use to what says
        # `life > 0`, which is always so: a claim must not be planned by it, and read all lanes for one.
        models.Index(
            name=f"{table}_due", fields=["scheduled_for", "position"], condition=Q(processed_at=None, life__gt=0)
        ),
        # A held stream's "is the row of the letter that holds it back?"
        models.Index(
            name=f"{table}_returned",
            fields=["dead_letter_id"],
            condition=Q(dead_letter_id__isnull=False, processed_at=None),
        ),
    ]


def message_indexes(table: str, lane: str | Coalesce) -> list[models.Index]:
    """Return the indexes by which messages are claimed; none names a column that a claim changes."""

    def index(name: str, *columns: str | Coalesce, condition: Q) -> models.Index:
        return models.Index(*columns, name=f"{table}_{name}", condition=condition)

    waiting: dict[str, Any] = {"processed_at": None}
    return [
        *work_indexes(table),
        # The claim of rows without a stream: of each lane the due ones, oldest first, and the lanes that there are.
        index("free_due", lane, "scheduled_for", "position", condition=Q(stream_id=None, **waiting)),
        # The claim's read of a leased stream's first rows, and "what waits behind it" on the pages.
        index("stream_order", "stream_id", "position", condition=Q(stream_id__isnull=False, **waiting)),
    ]


class InboxMessage(MessageRow):
    """One message of the inbox: a handler of this service is to run on it."""

    handler_name = models.CharField(max_length=500, db_default="")
    received_at = models.DateTimeField(db_default=Now())
    source_service_id = models.UUIDField(null=True)
    source_commit_sequence = models.BigIntegerField(null=True)
    chain_emitted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "wh_inbox"
        verbose_name = "inbox message"
        constraints = work_constraints("wh_inbox", "received_at", "chain_emitted_at")
        indexes = message_indexes("wh_inbox", "message_type")


class OutboxMessage(MessageRow):
    """One message of the outbox: it is to be published to its destination."""

    destination = models.CharField(max_length=500, null=True)
    envelope_type = models.CharField(max_length=500, null=True)
    created_at = models.DateTimeField(db_default=Now())
    published_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "wh_outbox"
        verbose_name = "outbox message"
        constraints = work_constraints("wh_outbox", "created_at", "published_at")
        indexes = message_indexes("wh_outbox", Coalesce("destination", models.Value("")))


class PerspectiveEvent(WorkRow):
    """One event that a perspective has still to apply; its body is in the event store."""

    event_work_id = models.UUIDField(primary_key=True)
    stream_id = models.UUIDField()
    perspective_name = models.CharField(max_length=200)
    event_id = models.UUIDField()
    status = models.IntegerField(db_default=0)
    failure_reason = models.IntegerField(null=True, db_default=99)
    created_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "wh_perspective_events"
        verbose_name = "perspective event"
        constraints = [
            *work_constraints("wh_perspective_events", "created_at", "claimed_at"),
            # An event is applied once by each perspective, however often it is appended or recovered.
            models.UniqueConstraint(
                name="wh_perspective_events_once", fields=["stream_id", "perspective_name", "event_id"]
            ),
        ]
        indexes = [
            *work_indexes("wh_perspective_events"),
            # The claim's read of a leased stream's first rows; each perspective has its own order.
            models.Index(
                name="wh_perspective_stream_order",
                fields=["perspective_name", "stream_id", "position"],
                condition=Q(processed_at=None),
            ),
        ]
