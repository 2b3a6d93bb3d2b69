"""What people wrote and did."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from deadletters.models.letters import DeadLetter


class Note(models.Model):
    """A note on a dead letter: appended, never changed."""

    id = models.BigAutoField(primary_key=True)
    dead_letter = models.ForeignKey(DeadLetter, models.CASCADE, db_index=False, related_name="notes")
    text = models.TextField()
    author = models.TextField()
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "notes"
        constraints = [models.CheckConstraint(name="notes_text_not_empty", condition=~Q(text=""))]
        indexes = [
            # The notes of one letter, newest last.
            models.Index(name="notes_of_letter", fields=["dead_letter", "written_at"]),
        ]


class OperatorAction(models.Model):
    """One thing that a person did; written in that thing's own transaction.

    Append-only: a trigger refuses UPDATE and DELETE. The actor is text and an id without a foreign key, so
    that removing a user removes no history.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.TextField()
    actor_id = models.TextField(db_default="")
    action = models.TextField()
    dead_letter_id = models.UUIDField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(db_default="")

    class Meta:
        db_table = "operator_actions"
        verbose_name = "operator action"
        indexes = [
            # What was done to one letter.
            models.Index(name="operator_actions_of_letter", fields=["dead_letter_id", "at"]),
            # The audit page, newest first.
            models.Index(name="operator_actions_newest", fields=["-at", "-id"]),
        ]
