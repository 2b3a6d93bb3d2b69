"""How dead letters are brought back: policies, runs with their items, and the builds that were deployed."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from queues.models.fields import in_calendar
from queues.words.outcomes import Cause, FailureReason


class AfterBudget(models.TextChoices):
    """What becomes of a letter whose automatic recoveries are used up."""

    HOLD = "hold", "Hold it for a person"
    GIVE_UP = "give_up", "Give it up"


class RecoveryPolicy(models.Model):
    """What the schedule does with letters of a cause, or of a cause and a failure reason.

    The more exact row wins. Made once from the defaults; what an administrator edits stays.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100)
    cause = models.CharField(max_length=20, choices=[(c.value, c.value.replace("_", " ")) for c in Cause])
    failure_reason = models.IntegerField(
        choices=[(r.value, r.name.replace("_", " ").lower()) for r in FailureReason], null=True, blank=True
    )
    is_automatic = models.BooleanField(db_default=True)
    max_recoveries = models.PositiveIntegerField(db_default=0)
    cooldown_seconds = models.PositiveIntegerField(db_default=3600)
    then = models.TextField(choices=AfterBudget, db_default=AfterBudget.HOLD)

    class Meta:
        db_table = "recovery_policies"
        verbose_name = "recovery policy"
        verbose_name_plural = "recovery policies"
        constraints = [
            # The move's "which policy is this death's?", and one answer to it.
            models.UniqueConstraint(
                name="recovery_policies_once", fields=["cause", "failure_reason"], nulls_distinct=False
            ),
            models.CheckConstraint(name="recovery_policies_then_known", condition=Q(then__in=AfterBudget.values)),
        ]

    def __str__(self) -> str:
        return self.name


class RecoveryPass(models.Model):
    """A walk over open letters, the newest first, that brings them in line with a policy or a group that changed.

    Written in the transaction of the change, gone when it is through. Of letters of a cause, with one reason or any;
    or of a group. `reached_at`, `reached_id`: the last letter that was looked at, NULL before the first.
    """

    id = models.BigAutoField(primary_key=True)
    cause = models.TextField(null=True)
    failure_reason = models.IntegerField(null=True)
    group_id = models.UUIDField(null=True)
    asked_at = models.DateTimeField(db_default=Now())
    reached_at = models.DateTimeField(null=True)
    reached_id = models.UUIDField(null=True)

    class Meta:
        db_table = "recovery_passes"
        verbose_name = "recovery pass"
        verbose_name_plural = "recovery passes"
        constraints = [
            models.CheckConstraint(
                name="recovery_passes_of_one_thing",
                condition=Q(cause__isnull=False, group_id=None)
                | Q(cause=None, failure_reason=None, group_id__isnull=False),
            ),
            models.CheckConstraint(
                name="recovery_passes_reached_one_letter",
                condition=Q(reached_at=None, reached_id=None) | Q(reached_at__isnull=False, reached_id__isnull=False),
            ),
        ]


class RunKind(models.TextChoices):
    """Who began a run."""

    PERSON = "person", "A person"
    SCHEDULE = "schedule", "The schedule"
    REPLAY = "replay", "A new build"


class RunState(models.TextChoices):
    """Where a run is."""

    FREEZING = "freezing", "Collecting its letters"
    READY = "ready", "Waits for its start"
    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    STOPPED = "stopped", "Stopped"
    FINISHED = "finished", "Finished"


def _is_object(column: str) -> Q:
    kind = models.Func(models.F(column), function="jsonb_typeof", output_field=models.TextField())
    return Q(Exact(kind, models.Value("object")))


class RecoveryRun(models.Model):
    """One recovery of more than one letter: its frozen scope, its plan and its progress.

    `scope` is the filter or the list of ids that was asked for, `scope_words` says it in English; what it came
    to is in the items. `plan`: canary size, ramp, rate, stop rule, stream order, start, deadline. `fresh_count`: of a
    scheduled run, how many of its letters had died since the scan before. `fingerprints`: the most frequent ones of a
    run that is of no one group.
    """

    run_id = models.UUIDField(primary_key=True)
    kind = models.TextField(choices=RunKind)
    state = models.TextField(choices=RunState, db_default=RunState.FREEZING)
    scope = models.JSONField()
    scope_words = models.TextField(db_default="")
    plan = models.JSONField()
    group_id = models.UUIDField(null=True)
    generation = models.TextField(null=True)
    actor = models.TextField()
    actor_id = models.TextField(db_default="")
    reason = models.TextField(db_default="")
    approved_by = models.TextField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    starts_at = models.DateTimeField(null=True)
    frozen_at = models.DateTimeField(null=True)
    frozen_count = models.IntegerField(null=True)
    fingerprints = ArrayField(models.TextField(), db_default=models.Value([], ArrayField(models.TextField())))
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    wave = models.IntegerField(db_default=0)
    rate_tokens = models.FloatField(db_default=0)
    rate_refilled_at = models.DateTimeField(null=True)
    stop_reason = models.TextField(db_default="")
    stepped_at = models.DateTimeField(null=True)
    fresh_count = models.IntegerField(null=True)
    row_version = models.IntegerField(db_default=1)

    class Meta:
        db_table = "recovery_runs"
        verbose_name = "recovery run"
        constraints = [
            models.CheckConstraint(
                name="recovery_runs_frozen_has_count",
                condition=Q(frozen_at=None, frozen_count=None) | Q(frozen_at__isnull=False, frozen_count__gte=0),
            ),
            models.CheckConstraint(
                name="recovery_runs_ended_has_time",
                condition=~Q(state__in=[RunState.STOPPED, RunState.FINISHED]) | Q(finished_at__isnull=False),
            ),
            models.CheckConstraint(
                name="recovery_runs_words_known", condition=Q(state__in=RunState.values, kind__in=RunKind.values)
            ),
            models.CheckConstraint(
                name="recovery_runs_times_in_calendar",
                condition=in_calendar(
                    "created_at",
                    "starts_at",
                    "frozen_at",
                    "started_at",
                    "finished_at",
                    "stepped_at",
                    "rate_refilled_at",
                ),
            ),
            models.CheckConstraint(
                name="recovery_runs_asked_for_as_objects", condition=_is_object("scope") & _is_object("plan")
            ),
            # One replay of a group on a build, however many workers report it.
            models.UniqueConstraint(
                name="recovery_runs_one_replay", fields=["group_id", "generation"], condition=Q(kind=RunKind.REPLAY)
            ),
        ]
        indexes = [
            # The list of runs, newest first.
            models.Index(name="recovery_runs_newest", fields=["-created_at", "-run_id"]),
            # The stepper's "which runs have something to do?"
            models.Index(
                name="recovery_runs_open",
                fields=["starts_at", "run_id"],
                condition=Q(state__in=[RunState.FREEZING, RunState.READY, RunState.RUNNING]),
            ),
            # The overview's runs that are not at their end.
            models.Index(
                name="recovery_runs_unfinished",
                fields=["-created_at", "-run_id"],
                condition=Q(state__in=[RunState.FREEZING, RunState.READY, RunState.RUNNING, RunState.PAUSED]),
            ),
            # What was tried on a group before.
            models.Index(name="recovery_runs_of_group", fields=["group_id", "-created_at"]),
            # What was tried on letters of a group in runs that were not of it.
            GinIndex(name="recovery_runs_of_fault", fields=["fingerprints"]),
            # What a build replayed.
            models.Index(name="recovery_runs_of_build", fields=["generation"], condition=Q(kind=RunKind.REPLAY)),
        ]

    def __str__(self) -> str:
        return f"run {self.run_id}"


class ItemState(models.TextChoices):
    """How the recovery of one letter in a run stands; all but the first two are ends."""

    WAITING = "waiting", "Waiting"
    SENT = "sent", "Sent"
    RECOVERED = "recovered", "Recovered"
    FAILED_AGAIN = "failed_again", "Failed again"
    FAILED_DIFFERENTLY = "failed_differently", "Failed differently"
    SKIPPED = "skipped", "Skipped"
    NO_ANSWER = "no_answer", "No answer"


class RecoveryItem(models.Model):
    """One letter of a run as it was when the scope was frozen.

    Sent only if `life` and `row_version` still hold. `is_next`: nothing of its stream goes before it in this run.
    `delayed_until`: its handler asked for that. Without a foreign key to the letter: a purge keeps the report.
    """

    item_id = models.UUIDField(primary_key=True)
    run = models.ForeignKey(RecoveryRun, models.CASCADE, db_index=False, related_name="items")
    dead_letter_id = models.UUIDField()
    place = models.BigIntegerField()
    stream_id = models.UUIDField(null=True)
    state = models.TextField(choices=ItemState, db_default=ItemState.WAITING)
    is_canary = models.BooleanField(db_default=False)
    is_next = models.BooleanField(db_default=True)
    life = models.IntegerField()
    row_version = models.IntegerField()
    fingerprint = models.CharField(max_length=16, null=True)
    fingerprint_version = models.SmallIntegerField(null=True)
    sent_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    delayed_until = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    why = models.TextField(db_default="")

    class Meta:
        db_table = "recovery_items"
        verbose_name = "recovery item"
        constraints = [
            # A letter is in a run once; the runs in which it was, on its page.
            models.UniqueConstraint(name="recovery_items_once", fields=["dead_letter_id", "run"]),
            # A letter is in flight for one run at most.
            models.UniqueConstraint(
                name="recovery_items_one_in_flight", fields=["dead_letter_id"], condition=Q(state=ItemState.SENT)
            ),
            models.CheckConstraint(name="recovery_items_state_known", condition=Q(state__in=ItemState.values)),
            models.CheckConstraint(
                name="recovery_items_times_in_calendar",
                condition=in_calendar("sent_at", "deadline_at", "delayed_until", "ended_at"),
            ),
            models.CheckConstraint(
                name="recovery_items_sent_has_times",
                condition=~Q(state=ItemState.SENT) | Q(sent_at__isnull=False, deadline_at__isnull=False),
            ),
        ]
        indexes = [
            # The totals of a run and its table of items.
            models.Index(name="recovery_items_by_state", fields=["run", "state", "place"]),
            # The stepper's next items: canaries, then in order. One behind another of its stream is not there.
            models.Index(
                name="recovery_items_next",
                fields=["run", "-is_canary", "place"],
                condition=Q(state=ItemState.WAITING, is_next=True),
            ),
            # What follows in a stream when an item has ended.
            models.Index(
                name="recovery_items_of_stream",
                fields=["run", "stream_id", "place"],
                condition=Q(state=ItemState.WAITING, stream_id__isnull=False),
            ),
            # Items whose answer is overdue.
            models.Index(name="recovery_items_overdue", fields=["deadline_at"], condition=Q(state=ItemState.SENT)),
        ]


class Generation(models.Model):
    """One build of one service, registered when a worker reports it; with the types and perspectives that it handles.

    `replay_ended_at` without `replay_begun_at`: there was nothing to replay.
    """

    id = models.BigAutoField(primary_key=True)
    service = models.CharField(max_length=200)
    build = models.CharField(max_length=200)
    types = ArrayField(models.TextField(), db_default=models.Value([], ArrayField(models.TextField())))
    perspectives = ArrayField(models.TextField(), db_default=models.Value([], ArrayField(models.TextField())))
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    replay_begun_at = models.DateTimeField(null=True)
    replay_ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "generations"
        constraints = [
            # "Is this build new to this service?"
            models.UniqueConstraint(name="generations_once", fields=["service", "build"]),
        ]
        indexes = [
            # The last builds, newest first: deploy marks, and what each replayed.
            models.Index(name="generations_newest", fields=["-first_seen_at"]),
        ]
