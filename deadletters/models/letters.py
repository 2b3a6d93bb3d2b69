"""Dead letters, their deaths, subjects and payload versions."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Left, Now

from queues.models import Source
from queues.models.fields import JSONTextField, in_calendar

TYPE_PREFIX = 200
"""Characters of a message type that are indexed; a longer type is compared whole after the index."""


OWNER_PREFIX = 200
"""Characters of an owner that are indexed; pages write none that is longer."""


class RecoveryStatus(models.IntegerChoices):
    """What the machine knows about a dead letter's recovery."""

    PENDING = 0, "Open"
    RECOVERING = 1, "Recovering"
    HELD = 2, "Held"
    RECOVERED = 3, "Recovered"
    PERMANENTLY_FAILED = 4, "Given up"


class Disposition(models.IntegerChoices):
    """What a person decided; it wins over everything automatic."""

    NONE = 0, "None"
    RETRY_NOW = 1, "Retry now"
    HOLD_INDEFINITELY = 2, "Hold"
    MARK_PERMANENTLY_FAILED = 3, "Give up"


class DeadLetter(models.Model):
    """One message that a queue gave up on, as it was at its latest death.

    Written by the SQL function `move_to_dead_letters`; a message that dies again re-opens its letter
    (`deaths` + 1). `source_row` is the work row without its bodies, so that a recovery rebuilds it whole.
    `edited_version` is the payload version that it holds, NULL = it was never edited; `original_id` is the id that its
    message had before it was sent under another one, with an edited payload.
    `held_by_group`: the group whose hold is the letter's disposition. `decided_at`: when a person decided about this
    letter itself.
    """

    dead_letter_id = models.UUIDField(primary_key=True)
    source_table = models.TextField(choices=Source)
    source_id = models.UUIDField()
    stream_id = models.UUIDField(null=True)
    message_type = models.TextField()
    destination = models.TextField(null=True)
    perspective_name = models.TextField(null=True)
    envelope = JSONTextField()
    metadata = JSONTextField(db_default=models.Value({}, models.JSONField()))
    failure_reason = models.IntegerField()
    error_text = models.TextField(null=True)
    attempts_when_dlq = models.IntegerField()
    dead_lettered_at = models.DateTimeField(db_default=Now())
    dead_lettered_by = models.UUIDField(null=True)
    recovery_status = models.IntegerField(choices=RecoveryStatus, db_default=RecoveryStatus.PENDING)
    recovery_attempts = models.IntegerField(db_default=0)
    last_recovery_at = models.DateTimeField(null=True)
    next_recovery_at = models.DateTimeField(null=True)
    recovered_at = models.DateTimeField(null=True)
    generation = models.TextField()
    retried_on_generations = ArrayField(models.TextField(), db_default=models.Value([], ArrayField(models.TextField())))
    operator_disposition = models.IntegerField(choices=Disposition, db_default=Disposition.NONE)
    operator_notes = models.TextField(null=True)
    operator_actor = models.TextField(null=True)
    error_fingerprint = models.CharField(max_length=16, null=True)
    error_fingerprint_version = models.SmallIntegerField(null=True)

    failure_detail = models.JSONField(null=True)
    cause = models.TextField(null=True)
    error_line = models.TextField(null=True)
    delays_when_dlq = models.IntegerField(null=True)
    life = models.IntegerField(db_default=1)
    deaths = models.IntegerField(db_default=1)
    first_dead_lettered_at = models.DateTimeField(db_default=Now())
    owner = models.TextField(null=True)
    quiet_until = models.DateTimeField(null=True)
    quiet_until_generation = models.TextField(null=True)
    fingerprint_checked_at = models.DateTimeField(null=True)
    envelope_raw = models.BinaryField(null=True)
    envelope_bytes = models.IntegerField(null=True)
    source_row = JSONTextField(null=True)
    superseded_by = models.UUIDField(null=True)
    row_version = models.IntegerField(db_default=1)
    current_item_id = models.UUIDField(null=True)
    original_id = models.UUIDField(null=True)
    edited_version = models.IntegerField(null=True)
    recoveries_total = models.IntegerField(db_default=0)
    held_by_group = models.UUIDField(null=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "wh_dead_letters"
        verbose_name = "dead letter"
        permissions = [
            ("triage", "Can write notes and triage dead letters"),
            ("recover", "Can recover dead letters"),
            ("edit_payload", "Can edit a payload before recovery"),
            ("reveal", "Can reveal masked values"),
            ("purge", "Can purge dead letters"),
        ]
        constraints = [
            # One current letter for each message; the move finds the letter to re-open by it, a search for an id too.
            models.UniqueConstraint(
                name="wh_dead_letters_one_current",
                fields=["source_id", "source_table"],
                condition=Q(superseded_by=None),
            ),
            models.CheckConstraint(
                name="wh_dead_letters_recovered_has_time",
                condition=~Q(recovery_status=RecoveryStatus.RECOVERED) | Q(recovered_at__isnull=False),
            ),
            models.CheckConstraint(name="wh_dead_letters_status_known", condition=Q(recovery_status__range=(0, 4))),
            models.CheckConstraint(
                name="wh_dead_letters_disposition_known", condition=Q(operator_disposition__range=(0, 3))
            ),
            models.CheckConstraint(name="wh_dead_letters_deaths_positive", condition=Q(deaths__gte=1)),
            models.CheckConstraint(
                name="wh_dead_letters_times_in_calendar",
                condition=in_calendar(
                    "dead_lettered_at",
                    "first_dead_lettered_at",
                    "last_recovery_at",
                    "next_recovery_at",
                    "recovered_at",
                    "quiet_until",
                    "decided_at",
                ),
            ),
        ]
        indexes = [
            # The list, newest first; the tie-break makes pages stable.
            models.Index(
                name="wh_dead_letters_newest",
                fields=["-dead_lettered_at", "-dead_letter_id"],
                condition=Q(superseded_by=None),
            ),
            # The list of one state.
            models.Index(
                name="wh_dead_letters_by_status",
                fields=["recovery_status", "-dead_lettered_at", "-dead_letter_id"],
                condition=Q(superseded_by=None),
            ),
            # The list of one failure reason.
            models.Index(
                name="wh_dead_letters_by_reason",
                fields=["failure_reason", "-dead_lettered_at", "-dead_letter_id"],
                condition=Q(superseded_by=None),
            ),
            # The overview's open letters by reason and age, and the list of open letters of one reason.
            models.Index(
                name="wh_dead_letters_open_by_reason",
                fields=["failure_reason", "-dead_lettered_at", "-dead_letter_id"],
                condition=Q(recovery_status=0, superseded_by=None),
            ),
            # Open letters that died again after a recovery, by source: the overview's number and its list.
            models.Index(
                name="wh_dead_letters_died_again",
                fields=["source_table", "-dead_lettered_at", "-dead_letter_id"],
                condition=Q(recovery_status=0, deaths__gt=1, superseded_by=None),
            ),
            # The list of one message type; a prefix, since a type may be longer than an index entry.
            models.Index(
                Left("message_type", TYPE_PREFIX),
                F("dead_lettered_at").desc(),
                F("dead_letter_id").desc(),
                name="wh_dead_letters_by_type",
                condition=Q(superseded_by=None),
            ),
            # The list of what one person owns; a prefix, since others may write a longer one.
            models.Index(
                Left("owner", OWNER_PREFIX),
                F("dead_lettered_at").desc(),
                F("dead_letter_id").desc(),
                name="wh_dead_letters_by_owner",
                condition=Q(owner__isnull=False, superseded_by=None),
            ),
            # The list of what died again after a recovery.
            models.Index(
                name="wh_dead_letters_again_newest",
                fields=["-dead_lettered_at", "-dead_letter_id"],
                condition=Q(deaths__gt=1, superseded_by=None),
            ),
            # What died of one stream.
            models.Index(
                name="wh_dead_letters_by_stream",
                fields=["stream_id", "-dead_lettered_at"],
                condition=Q(stream_id__isnull=False),
            ),
            # The letters of a group, and which of its oldest are open without a look at them; the folder's sample.
            models.Index(
                name="wh_dead_letters_by_group",
                fields=["error_fingerprint", "error_fingerprint_version", "-dead_lettered_at", "-dead_letter_id"],
                include=["recovery_status"],
                condition=Q(superseded_by=None),
            ),
            # How many of a group's open letters died again after a recovery.
            models.Index(
                name="wh_dead_letters_again_in_group",
                fields=["error_fingerprint", "error_fingerprint_version", "-dead_lettered_at", "-dead_letter_id"],
                condition=Q(deaths__gt=1, recovery_status=RecoveryStatus.PENDING, superseded_by=None),
            ),
            # The due scan of the schedule. Held, closed and unscheduled letters are not in it, however many.
            models.Index(
                name="wh_dead_letters_due",
                fields=["next_recovery_at", "dead_letter_id"],
                condition=Q(recovery_status=0, next_recovery_at__isnull=False, superseded_by=None),
            ),
            # What became of an id that was edited: the search for an id, and "is it dead?" of the deduplication.
            models.Index(
                name="wh_dead_letters_by_original_id",
                fields=["original_id"],
                condition=Q(original_id__isnull=False),
            ),
            # The letters to let go when a group's hold is lifted.
            models.Index(
                name="wh_dead_letters_held_by_group",
                fields=["held_by_group", "dead_letter_id"],
                condition=Q(held_by_group__isnull=False),
            ),
            # Letters of movers without version 2, until the re-fingerprinting has looked at them.
            models.Index(
                name="wh_dead_letters_refingerprint",
                fields=["dead_letter_id"],
                condition=Q(error_fingerprint_version=1, fingerprint_checked_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"letter {self.dead_letter_id}"


class DeadLetterPayload(models.Model):
    """A payload version of a dead letter: 1 is the original, kept when the first edit is made.

    The one with the highest number is what the letter holds. `message_id` is the id under which it is sent: another
    content has another id, so that whoever knows the original's does not take it for that.
    """

    pk = models.CompositePrimaryKey("dead_letter_id", "version")
    dead_letter = models.ForeignKey(DeadLetter, models.CASCADE, db_index=False, related_name="payloads")
    version = models.IntegerField()
    envelope = JSONTextField()
    envelope_raw = models.BinaryField(null=True)
    envelope_bytes = models.IntegerField(null=True)
    message_id = models.UUIDField()
    edited_by = models.TextField(null=True)
    reason = models.TextField(db_default="")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "dead_letter_payloads"
        constraints = [
            models.CheckConstraint(
                name="dead_letter_payloads_edits_have_an_editor", condition=Q(version=1) | Q(edited_by__isnull=False)
            ),
        ]


class Verdict(models.TextChoices):
    """How a recovery ended."""

    RECOVERED = "recovered", "Recovered"
    FAILED_AGAIN = "failed_again", "Failed again"
    FAILED_DIFFERENTLY = "failed_differently", "Failed differently"
    NO_ANSWER = "no_answer", "No answer"


class DeadLetterDeath(models.Model):
    """One death of a letter, with the recovery that followed it and that recovery's verdict.

    Written by the move; the first failure stays readable for ever.
    """

    id = models.BigAutoField(primary_key=True)
    dead_letter = models.ForeignKey(
        DeadLetter, models.CASCADE, db_index=False, db_constraint=False, related_name="death_rows"
    )
    number = models.IntegerField()
    dead_lettered_at = models.DateTimeField(db_default=Now())
    dead_lettered_by = models.UUIDField(null=True)
    generation = models.TextField()
    life = models.IntegerField(db_default=1)
    cause = models.TextField()
    failure_reason = models.IntegerField()
    error_text = models.TextField(null=True)
    last_reported_error = models.TextField(null=True)
    failure_detail = models.JSONField(null=True)
    error_fingerprint = models.CharField(max_length=16, null=True)
    error_fingerprint_version = models.SmallIntegerField(null=True)
    attempts = models.IntegerField()
    delays = models.IntegerField(db_default=0)
    recovery_item_id = models.UUIDField(null=True)
    recovery_sent_at = models.DateTimeField(null=True)
    recovery_actor = models.TextField(null=True)
    verdict = models.TextField(choices=Verdict, null=True)
    verdict_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "dead_letter_deaths"
        constraints = [
            # The deaths of one letter, in order.
            models.UniqueConstraint(name="dead_letter_deaths_numbered", fields=["dead_letter", "number"]),
            models.CheckConstraint(
                name="dead_letter_deaths_verdict_follows_recovery",
                condition=Q(verdict=None, verdict_at=None)
                | Q(verdict__isnull=False, verdict_at__isnull=False, recovery_sent_at__isnull=False),
            ),
            models.CheckConstraint(
                name="dead_letter_deaths_times_in_calendar",
                condition=in_calendar("dead_lettered_at", "recovery_sent_at", "verdict_at"),
            ),
        ]
