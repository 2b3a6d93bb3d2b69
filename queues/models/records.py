"""What happened, who works, and which ids were seen."""

from django.db import models
from django.db.models.functions import Now

from queues.models.fields import in_calendar


class DeliveryLogEntry(models.Model):
    """One event of one message: a run that ended, a lost worker, a release.

    Append-only and partitioned by month of `logged_at`; retention drops partitions. The database's key is
    (id, logged_at); `id` alone is unique because one sequence feeds all partitions.
    """

    id = models.BigAutoField(primary_key=True)
    logged_at = models.DateTimeField(db_default=Now())
    source = models.TextField()
    message_id = models.UUIDField()
    life = models.IntegerField(db_default=1)
    attempt = models.IntegerField()
    outcome = models.TextField()
    failure_message = models.TextField(null=True)
    failure_detail = models.JSONField(null=True)
    started_at = models.DateTimeField(null=True)
    duration_ms = models.IntegerField(null=True)
    worker = models.UUIDField(null=True)
    generation = models.TextField(db_default="")

    class Meta:
        db_table = "delivery_log"
        verbose_name = "delivery log entry"
        verbose_name_plural = "delivery log"
        indexes = [
            # The timeline of one message on its page.
            models.Index(name="delivery_log_message", fields=["message_id", "logged_at"]),
        ]


class SeenMessage(models.Model):
    """An id that a sender chose and that was stored; it outlives its message and dead letter."""

    message_id = models.UUIDField(primary_key=True)
    first_seen_at = models.DateTimeField(db_default=Now())
    observation_count = models.IntegerField(db_default=1)

    class Meta:
        db_table = "wh_message_deduplication"
        indexes = [
            # Housekeeping's "which ids are old?"
            models.Index(name="wh_deduplication_age", fields=["first_seen_at", "message_id"]),
        ]


class ServiceInstance(models.Model):
    """One process that drains; `metadata` holds its generation, handled types and what it drains now."""

    instance_id = models.UUIDField(primary_key=True)
    service_name = models.TextField()
    host_name = models.CharField(max_length=200)
    process_id = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    last_heartbeat_at = models.DateTimeField(db_default=Now())
    metadata = models.JSONField(null=True)

    class Meta:
        db_table = "wh_service_instances"
        constraints = [
            models.CheckConstraint(
                name="wh_instances_times_in_calendar", condition=in_calendar("started_at", "last_heartbeat_at")
            ),
        ]
        indexes = [
            # "Is a live worker there, and which types does it handle?"
            models.Index(name="wh_instances_heartbeat", fields=["last_heartbeat_at"]),
        ]
