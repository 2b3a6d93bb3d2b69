"""Events that were appended, who projects them and how far, and who reacts to deaths."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from queues.models.fields import JSONTextField, in_calendar
from queues.words.reactions import MAX_REACTED_TYPE


class StoredEvent(models.Model):
    """One event of a stream, kept for ever; `version` counts within the stream from 1."""

    event_id = models.UUIDField(primary_key=True)
    stream_id = models.UUIDField()
    aggregate_id = models.UUIDField(null=True)
    aggregate_type = models.TextField(null=True)
    event_type = models.CharField(max_length=500)
    event_data = JSONTextField()
    metadata = JSONTextField(db_default=models.Value({}, models.JSONField()))
    scope = JSONTextField(null=True)
    version = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now())
    flags = models.IntegerField(null=True)
    commit_sequence = models.BigIntegerField(null=True)
    origin_service_id = models.UUIDField(null=True)
    origin_commit_sequence = models.BigIntegerField(null=True)
    envelope_raw = models.BinaryField(null=True)
    envelope_bytes = models.IntegerField(null=True)

    class Meta:
        db_table = "wh_event_store"
        verbose_name = "event"
        constraints = [
            # The expected version of an append, and a stream's events in order.
            models.UniqueConstraint(name="wh_event_store_stream_version", fields=["stream_id", "version"]),
            models.UniqueConstraint(name="wh_event_store_aggregate_version", fields=["aggregate_id", "version"]),
            models.CheckConstraint(name="wh_event_store_version_positive", condition=Q(version__gte=1)),
            models.CheckConstraint(name="wh_event_store_times_in_calendar", condition=in_calendar("created_at")),
        ]


class PerspectiveCursor(models.Model):
    """How far a perspective is in a stream; written in the transaction of each apply."""

    pk = models.CompositePrimaryKey("stream_id", "perspective_name")
    stream_id = models.UUIDField()
    perspective_name = models.TextField()
    last_event_id = models.UUIDField(null=True)
    version = models.IntegerField(db_default=0)
    status = models.SmallIntegerField(db_default=0)
    processed_at = models.DateTimeField(db_default=Now())
    error = models.TextField(null=True)
    rewind_trigger_event_id = models.UUIDField(null=True)
    rewind_flagged_at = models.DateTimeField(null=True)
    rewind_first_flagged_at = models.DateTimeField(null=True)
    stream_lock_instance_id = models.UUIDField(null=True)
    stream_lock_expiry = models.DateTimeField(null=True)
    stream_lock_reason = models.CharField(max_length=50, null=True)

    class Meta:
        db_table = "wh_perspective_cursors"


class PerspectiveSubscription(models.Model):
    """ "This perspective applies events of this type."

    Rows and not code, read at each append: older processes and SQL writers feed new perspectives too.
    """

    id = models.BigAutoField(primary_key=True)
    perspective_name = models.CharField(max_length=200)
    event_type = models.CharField(max_length=500)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "perspective_subscriptions"
        verbose_name = "perspective subscription"
        constraints = [
            # An append's "which perspectives apply this type?"
            models.UniqueConstraint(name="perspective_subscriptions_once", fields=["event_type", "perspective_name"]),
        ]


class DeadLetterSubscription(models.Model):
    """ "Somebody reacts to deaths of this type."

    Rows and not code, read at each move: whoever moves a message, in any language, tells those who react.
    """

    id = models.BigAutoField(primary_key=True)
    message_type = models.CharField(max_length=MAX_REACTED_TYPE)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "dead_letter_subscriptions"
        verbose_name = "dead letter subscription"
        constraints = [
            # A move's "does anybody react to this type?"
            models.UniqueConstraint(name="dead_letter_subscriptions_once", fields=["message_type"]),
        ]
