"""Columns that the work tables share, and the inbox."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from queues.models.fields import JSONTextField


class Source(models.TextChoices):
    """Where a message waits, and where a dead letter came from."""

    INBOX = "wh_inbox", "Inbox"
    OUTBOX = "wh_outbox", "Outbox"
    PERSPECTIVE = "wh_perspective_events", "Perspectives"
    BROKER = "broker", "Broker"


class WorkRow(models.Model):
    """One waiting or running message.

    Written by `send`, by any SQL writer of the database and by a recovery; leaves when its handler succeeded
    or when it is dead-lettered. `attempts` counts runs that ended or were charged and never goes down;
    budget used = attempts - delays - releases.
    """

    message_id = models.UUIDField(primary_key=True)
    message_type = models.CharField(max_length=500)
    event_data = JSONTextField()
    metadata = JSONTextField(db_default=models.Value({}, models.JSONField()))
    scope = JSONTextField(null=True)
    stream_id = models.UUIDField(null=True)
    partition_number = models.IntegerField(null=True)
    is_event = models.BooleanField(db_default=False)
    status = models.IntegerField(db_default=1)
    attempts = models.IntegerField(db_default=0)
    error = models.TextField(null=True)
    instance_id = models.UUIDField(null=True)
    lease_expiry = models.DateTimeField(null=True)
    failure_reason = models.IntegerField(db_default=99)
    scheduled_for = models.DateTimeField(db_default=Now())
    processed_at = models.DateTimeField(null=True)
    flags = models.IntegerField(null=True)
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


class InboxMessage(WorkRow):
    """One message of the inbox; see `WorkRow`."""

    handler_name = models.CharField(max_length=500, db_default="")
    received_at = models.DateTimeField(db_default=Now())
    source_service_id = models.UUIDField(null=True)
    source_commit_sequence = models.BigIntegerField(null=True)
    chain_emitted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "wh_inbox"
        verbose_name = "inbox message"
        constraints = [
            models.CheckConstraint(
                name="wh_inbox_max_attempts_positive_or_unlimited",
                condition=Q(max_attempts=-1) | Q(max_attempts__gte=1),
            ),
            models.CheckConstraint(name="wh_inbox_max_delays_not_negative", condition=Q(max_delays__gte=-1)),
            models.CheckConstraint(
                name="wh_inbox_counts_not_negative",
                condition=Q(attempts__gte=0, delays__gte=0, releases__gte=0, life__gte=1),
            ),
            models.CheckConstraint(
                name="wh_inbox_lease_is_whole",
                condition=Q(lease_token=None) | Q(lease_expiry__isnull=False, instance_id__isnull=False),
            ),
        ]
        indexes = [
            # The claim of rows without a stream: due ones, oldest first.
            models.Index(
                name="wh_inbox_free_due",
                fields=["scheduled_for", "position"],
                condition=Q(stream_id=None, processed_at=None),
            ),
            # The claim's read of a leased stream's first rows, and "what waits behind it" on the pages.
            models.Index(
                name="wh_inbox_stream_order",
                fields=["stream_id", "position"],
                condition=Q(stream_id__isnull=False, processed_at=None),
            ),
        ]
