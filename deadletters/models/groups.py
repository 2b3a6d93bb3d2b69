"""Failure groups: letters of one fingerprint, their triage, and their counts by append and fold."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from deadletters.models.letters import Disposition, RecoveryStatus
from queues.models import Source


class GroupState(models.TextChoices):
    """Where the triage of a group stands. `regressed`: it died again after it was fixed or resolved."""

    NEW = "new", "New"
    ONGOING = "ongoing", "Ongoing"
    REGRESSED = "regressed", "Regressed"
    HELD = "held", "Held"
    FIXED = "fixed", "Fixed in a build"
    RESOLVED = "resolved", "Resolved"


class FailureGroup(models.Model):
    """One fault: a sample of it and the triage by people.

    Made by the folder when it meets a fingerprint for the first time, never by a mover: two movers of one new
    fault would wait for each other. `title` is empty until the folder has read the sample. `letters` and
    `open_letters` are what its counts add up to, without the deltas still waiting: lists are put in order by them.
    """

    group_id = models.UUIDField(primary_key=True)
    title = models.TextField(db_default="")
    template = models.TextField(db_default="")
    place = models.TextField(db_default="")
    message_type = models.TextField(db_default="")
    sample_letter_id = models.UUIDField(null=True)
    sample_line = models.TextField(null=True)
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    letters = models.BigIntegerField(db_default=0, editable=False)
    open_letters = models.BigIntegerField(db_default=0, editable=False)

    state = models.TextField(choices=GroupState, db_default=GroupState.NEW)
    state_at = models.DateTimeField(db_default=Now())
    owner = models.TextField(null=True, blank=True)
    quiet_until = models.DateTimeField(null=True, blank=True)
    quiet_until_generation = models.TextField(null=True, blank=True)
    quiet_until_count = models.IntegerField(null=True, blank=True)
    ticket = models.TextField(null=True, blank=True)
    runbook = models.TextField(null=True, blank=True)
    fixed_in_generation = models.TextField(null=True, blank=True)
    operator_disposition = models.IntegerField(choices=Disposition, db_default=Disposition.NONE)
    held_at = models.DateTimeField(null=True, editable=False)
    row_version = models.IntegerField(db_default=1)

    class Meta:
        db_table = "failure_groups"
        verbose_name = "failure group"
        constraints = [
            models.CheckConstraint(
                name="failure_groups_fixed_names_the_build",
                condition=~Q(state=GroupState.FIXED) | Q(fixed_in_generation__isnull=False),
            ),
            models.CheckConstraint(
                name="failure_groups_held_has_time",
                condition=Q(operator_disposition=Disposition.HOLD_INDEFINITELY, held_at__isnull=False)
                | Q(operator_disposition=Disposition.NONE, held_at=None),
            ),
        ]
        indexes = [
            # The list of groups, the one that died last first.
            models.Index(name="failure_groups_last_seen", fields=["-last_seen_at", "-group_id"]),
            # Held groups: new letters of theirs are held, too.
            models.Index(
                name="failure_groups_held",
                fields=["-last_seen_at"],
                condition=Q(operator_disposition=Disposition.HOLD_INDEFINITELY),
            ),
            # Groups that the folder has still to name.
            models.Index(name="failure_groups_to_name", fields=["group_id"], condition=Q(title="")),
        ]

    def __str__(self) -> str:
        return f"group {self.group_id}"


class GroupFingerprint(models.Model):
    """A fingerprint of a group; several when groups were merged or a fault was fingerprinted anew."""

    pk = models.CompositePrimaryKey("fingerprint", "version")
    fingerprint = models.CharField(max_length=16)
    version = models.SmallIntegerField()
    group = models.ForeignKey(FailureGroup, models.CASCADE, db_index=False, related_name="fingerprints")

    class Meta:
        db_table = "group_fingerprints"
        indexes = [
            # The fingerprints of one group, to find its letters and counts.
            models.Index(name="group_fingerprints_of_group", fields=["group"]),
        ]


class GroupAlias(models.Model):
    """The id of a group that was merged into another: old links keep working."""

    alias = models.UUIDField(primary_key=True)
    group = models.ForeignKey(FailureGroup, models.CASCADE, db_index=False, related_name="aliases")
    merged_by = models.TextField()
    merged_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "group_aliases"
        verbose_name = "group alias"
        verbose_name_plural = "group aliases"
        indexes = [
            # What was merged into one group.
            models.Index(name="group_aliases_of_group", fields=["group"]),
        ]


class GroupCount(models.Model):
    """How many current letters have a fingerprint, source, status and disposition, as far as deltas are folded.

    The exact count is this one plus the deltas still waiting, read by one statement. `changed_at`: when a change was
    folded into it last; the latest one of the open counts that are all 0 is since when nothing is open.
    """

    pk = models.CompositePrimaryKey("fingerprint", "version", "source_table", "recovery_status", "operator_disposition")
    fingerprint = models.CharField(max_length=16)
    version = models.SmallIntegerField()
    source_table = models.TextField(choices=Source)
    recovery_status = models.SmallIntegerField(choices=RecoveryStatus)
    operator_disposition = models.SmallIntegerField(choices=Disposition)
    n = models.BigIntegerField(db_default=0)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "group_counts"


class GroupDelta(models.Model):
    """A change of a group's counts: appended by triggers in the mover's transaction, eaten by the folder.

    `deaths` counts deaths of `hour` on `generation`; 0 where letters only changed their state.
    """

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.CharField(max_length=16)
    version = models.SmallIntegerField()
    source_table = models.TextField(choices=Source)
    recovery_status = models.SmallIntegerField(choices=RecoveryStatus)
    operator_disposition = models.SmallIntegerField(choices=Disposition)
    n = models.IntegerField()
    deaths = models.IntegerField(db_default=0)
    hour = models.DateTimeField(null=True)
    generation = models.TextField(db_default="")
    seen_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "group_deltas"


class GroupHour(models.Model):
    """Deaths of one fingerprint in one hour on one build: the trend of a group."""

    pk = models.CompositePrimaryKey("fingerprint", "version", "hour", "generation")
    fingerprint = models.CharField(max_length=16)
    version = models.SmallIntegerField()
    hour = models.DateTimeField()
    generation = models.TextField()
    deaths = models.IntegerField(db_default=0)

    class Meta:
        db_table = "group_hours"
        indexes = [
            # Hours that are older than the trend goes back.
            models.Index(name="group_hours_by_hour", fields=["hour"]),
        ]
