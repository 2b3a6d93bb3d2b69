"""Order and leases of streams."""

from django.db import models
from django.db.models import Q

from queues.models.fields import in_calendar


class Stream(models.Model):
    """One stream that has waiting messages in a queue.

    Its lease, not its messages', says who runs it. Made by drainers out of arrivals, deleted by a claim that
    finds it empty and unchanged (`version`). `due_at` is when its first message may run. `held_by`: the dead
    letter behind which the others wait; only that letter's own message runs.
    """

    pk = models.CompositePrimaryKey("queue", "stream_id")
    queue = models.TextField()
    stream_id = models.UUIDField()
    due_at = models.DateTimeField()
    lease_token = models.UUIDField(null=True)
    lease_expiry = models.DateTimeField(null=True)
    instance_id = models.UUIDField(null=True)
    held_by = models.UUIDField(null=True)
    version = models.IntegerField(db_default=1)

    class Meta:
        db_table = "wh_streams"
        constraints = [
            models.CheckConstraint(
                name="wh_streams_times_in_calendar", condition=in_calendar("due_at", "lease_expiry")
            ),
            models.CheckConstraint(
                name="wh_streams_lease_is_whole",
                condition=Q(lease_token=None, lease_expiry=None, instance_id=None)
                | Q(lease_token__isnull=False, lease_expiry__isnull=False, instance_id__isnull=False),
            ),
        ]
        indexes = [
            # The claim: streams of a queue that are due, longest first. Of use to what says `version > 0`, which is
            # always so: a reader of single streams must not be planned by it, and read all of the queue.
            models.Index(name="wh_streams_due", fields=["queue", "due_at"], condition=Q(version__gt=0)),
            # The page of the streams that a dead letter holds, and which one a letter holds.
            models.Index(name="wh_streams_held", fields=["queue", "stream_id"], condition=Q(held_by__isnull=False)),
        ]


class Arrival(models.Model):
    """ "This stream has got a message": appended by a trigger in the sender's transaction, eaten by drainers.

    `dead_letter_id`: the message came back from that letter, so it may run though the letter holds the stream.

    Senders never touch `Stream` rows, so that two senders of several streams cannot deadlock.
    """

    queue = models.TextField()
    stream_id = models.UUIDField()
    dead_letter_id = models.UUIDField(null=True)

    class Meta:
        db_table = "wh_arrivals"
