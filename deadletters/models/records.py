"""What people wrote, did, kept and saw."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Left, Now

from deadletters.models.groups import FailureGroup
from deadletters.models.letters import DeadLetter

NAME_PREFIX = 200
"""Characters of an actor's name and of an action that are indexed; a longer one is compared whole after the index."""


class Note(models.Model):
    """A note on a dead letter or on a group: appended, never changed."""

    id = models.BigAutoField(primary_key=True)
    dead_letter = models.ForeignKey(DeadLetter, models.CASCADE, db_index=False, null=True, related_name="notes")
    group = models.ForeignKey(FailureGroup, models.CASCADE, db_index=False, null=True, related_name="notes")
    text = models.TextField()
    author = models.TextField()
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "notes"
        constraints = [
            models.CheckConstraint(name="notes_text_not_empty", condition=~Q(text="")),
            models.CheckConstraint(
                name="notes_on_a_letter_or_a_group",
                condition=Q(dead_letter__isnull=False, group=None) | Q(dead_letter=None, group__isnull=False),
            ),
        ]
        indexes = [
            # The notes of one letter, and of one group, newest last.
            models.Index(name="notes_of_letter", fields=["dead_letter", "written_at"]),
            models.Index(name="notes_of_group", fields=["group", "written_at"], condition=Q(group__isnull=False)),
        ]


class OperatorAction(models.Model):
    """One thing that a person did; written in that thing's own transaction.

    Append-only: a trigger refuses UPDATE and DELETE. The actor is text and an id without a foreign key, so
    that removing a user removes no history; nor do letters, groups and runs take it with them.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.TextField()
    actor_id = models.TextField(db_default="")
    action = models.TextField()
    dead_letter_id = models.UUIDField(null=True)
    group_id = models.UUIDField(null=True)
    run_id = models.UUIDField(null=True)
    message_id = models.UUIDField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(db_default="")

    class Meta:
        db_table = "operator_actions"
        verbose_name = "operator action"
        indexes = [
            # What was done to one letter, to one group, to one run, to one message that was alive.
            models.Index(name="operator_actions_of_letter", fields=["dead_letter_id", "at"]),
            models.Index(
                name="operator_actions_of_group", fields=["group_id", "at"], condition=Q(group_id__isnull=False)
            ),
            models.Index(name="operator_actions_of_run", fields=["run_id", "at"], condition=Q(run_id__isnull=False)),
            models.Index(
                name="operator_actions_of_message", fields=["message_id", "at"], condition=Q(message_id__isnull=False)
            ),
            # The audit page, newest first.
            models.Index(name="operator_actions_newest", fields=["-at", "-id"]),
            # What one person did; a prefix, since a name may be longer than an index entry.
            models.Index(Left("actor", NAME_PREFIX), F("at").desc(), F("id").desc(), name="operator_actions_by_actor"),
            # Who did one kind of thing.
            models.Index(
                Left("action", NAME_PREFIX), F("at").desc(), F("id").desc(), name="operator_actions_by_action"
            ),
        ]


class LegalHold(models.Model):
    """Keeps one letter, or all letters of a group or about a subject, from any purge until it is lifted."""

    id = models.BigAutoField(primary_key=True)
    dead_letter_id = models.UUIDField(null=True, blank=True)
    group_id = models.UUIDField(null=True, blank=True)
    subject_type = models.TextField(null=True, blank=True)
    subject_id = models.TextField(null=True, blank=True)
    reason = models.TextField()
    placed_by = models.TextField()
    placed_at = models.DateTimeField(db_default=Now())
    lifted_by = models.TextField(null=True, blank=True)
    lifted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "legal_holds"
        verbose_name = "legal hold"
        constraints = [
            models.CheckConstraint(
                name="legal_holds_keep_one_thing",
                condition=Q(dead_letter_id__isnull=False, group_id=None, subject_type=None, subject_id=None)
                | Q(dead_letter_id=None, group_id__isnull=False, subject_type=None, subject_id=None)
                | Q(dead_letter_id=None, group_id=None, subject_type__isnull=False, subject_id__isnull=False),
            ),
            models.CheckConstraint(
                name="legal_holds_lifted_by_somebody",
                condition=Q(lifted_at=None, lifted_by=None) | Q(lifted_at__isnull=False, lifted_by__isnull=False),
            ),
        ]
        indexes = [
            # The purge's "what must stay?"
            models.Index(name="legal_holds_in_force", fields=["placed_at"], condition=Q(lifted_at=None)),
        ]

    def __str__(self) -> str:
        return f"hold {self.pk}"


class SavedView(models.Model):
    """A filter that a person keeps under a name, for themselves or for everybody."""

    id = models.BigAutoField(primary_key=True)
    owner_id = models.TextField()
    owner = models.TextField()
    page = models.CharField(max_length=20)
    name = models.CharField(max_length=100)
    query = models.CharField(max_length=2_000)
    is_shared = models.BooleanField(db_default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "saved_views"
        verbose_name = "saved view"
        constraints = [
            # The views of one person for a page, by name.
            models.UniqueConstraint(name="saved_views_once", fields=["owner_id", "page", "name"]),
        ]
        indexes = [
            # The shared views of a page.
            models.Index(name="saved_views_shared", fields=["page", "name"], condition=Q(is_shared=True)),
        ]


DASHBOARD = "dashboard"
"""The page by whose name visits are kept: all pages are one."""


class LastVisit(models.Model):
    """When a person last looked at a page: what is newer is new to them."""

    id = models.BigAutoField(primary_key=True)
    visitor_id = models.TextField()
    page = models.CharField(max_length=20)
    seen_at = models.DateTimeField()
    previous_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "last_visits"
        verbose_name = "last visit"
        constraints = [
            # A person's last look at a page.
            models.UniqueConstraint(name="last_visits_once", fields=["visitor_id", "page"]),
        ]


class KeptForm(models.Model):
    """A form that a person filled and has not confirmed: kept under a name in the address, for the person only.

    Written by the page that asks; it leaves when it is sent, when it is old, and with its letter.
    """

    id = models.BigAutoField(primary_key=True)
    person_id = models.TextField()
    name = models.CharField(max_length=40)
    about = models.CharField(max_length=20)
    dead_letter_id = models.UUIDField(null=True)
    query = models.TextField()
    kept_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "kept_forms"
        verbose_name = "kept form"
        constraints = [
            # The form that an address names.
            models.UniqueConstraint(name="kept_forms_once", fields=["name"]),
        ]
        indexes = [
            # The forms of one person, newest first: the oldest make room.
            models.Index(name="kept_forms_of_person", fields=["person_id", "-kept_at"]),
            # The purge takes what was typed about its letters with it.
            models.Index(
                name="kept_forms_of_letter", fields=["dead_letter_id"], condition=Q(dead_letter_id__isnull=False)
            ),
        ]
