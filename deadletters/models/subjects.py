"""What dead letters are about, and how many are about each subject."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from deadletters.models.letters import DeadLetter, RecoveryStatus


class DeadLetterSubject(models.Model):
    """What a letter is about: the subjects of its latest death that recorded any, in their order."""

    pk = models.CompositePrimaryKey("dead_letter_id", "position")
    dead_letter = models.ForeignKey(
        DeadLetter, models.CASCADE, db_index=False, db_constraint=False, related_name="subjects"
    )
    position = models.IntegerField()
    type = models.TextField()
    id = models.TextField()
    subject_key = models.UUIDField()

    class Meta:
        db_table = "dead_letter_subjects"
        indexes = [
            # "Every dead letter about order 42", by a key of fixed size.
            models.Index(name="dead_letter_subjects_key", fields=["subject_key", "dead_letter"]),
        ]


class SubjectCount(models.Model):
    """How many current letters in one recovery status are about a subject, as far as the deltas are folded."""

    pk = models.CompositePrimaryKey("subject_key", "recovery_status")
    subject_key = models.UUIDField()
    recovery_status = models.SmallIntegerField(choices=RecoveryStatus)
    type = models.TextField()
    id = models.TextField()
    n = models.BigIntegerField(db_default=0)
    last_seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "subject_counts"
        indexes = [
            # The subjects with most letters of a status, of all types or of one; a type's prefix, since it may be long.
            models.Index(name="subject_counts_top", fields=["recovery_status", "-n"], condition=Q(n__gt=0)),
            models.Index(
                models.functions.Left("type", 100),
                models.F("recovery_status"),
                models.F("n").desc(),
                name="subject_counts_top_of_type",
                condition=Q(n__gt=0),
            ),
        ]


class SubjectDelta(models.Model):
    """A change of a subject's counts: appended by triggers in the mover's transaction, eaten by the folder."""

    id = models.BigAutoField(primary_key=True)
    subject_key = models.UUIDField()
    subject_type = models.TextField()
    subject_id = models.TextField()
    recovery_status = models.SmallIntegerField(choices=RecoveryStatus)
    n = models.IntegerField()
    seen_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "subject_deltas"
