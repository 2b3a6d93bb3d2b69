"""Failure groups with what belongs to them, and what their counting leaves behind."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminIntegerFieldWidget, AdminSplitDateTime
from django.db.models import Model, Q
from django.utils import timezone

from deadletters.admin.letters import notes, page_of
from deadletters.admin.reading import MAX_ROWS, ReadingAdmin, group_of, link
from deadletters.admin.triaging import TriageAdmin, TriageForm, line
from deadletters.models import (
    FailureGroup,
    GroupAlias,
    GroupDelta,
    GroupFingerprint,
    GroupState,
    RecoveryStatus,
    SubjectDelta,
)
from deadletters.queries import counts
from deadletters.triage import Changed, change_group
from deadletters.triage.changes import MAX_BUILD, MAX_COUNT, MAX_OWNER, MAX_RUNBOOK, MAX_TICKET, SETTABLE_STATES
from queues.admin.reading import MAX_LINE, masked, table
from queues.models import Source

TREND = timedelta(days=2)


class GroupForm(TriageForm):
    owner = line(limit=MAX_OWNER)
    state = forms.ChoiceField(help_text="Held and regressed are found out; the others are set by people.")
    fixed_in_generation = line(
        limit=MAX_BUILD, label="Fixed in build", help_text="Needed for the state “fixed”; letters wait for this build."
    )
    operator_disposition = forms.TypedChoiceField(
        coerce=int,
        choices=[(0, "None"), (2, "Hold")],
        label="Decision",
        help_text="Hold: its letters are held, new ones too, but for those that somebody decided about themselves.",
    )
    quiet_until = forms.SplitDateTimeField(required=False, widget=AdminSplitDateTime)
    quiet_until_generation = line(limit=MAX_BUILD, label="Quiet until build")
    quiet_until_count = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_COUNT,
        widget=AdminIntegerFieldWidget,
        help_text="Quiet until it has this many letters.",
    )
    ticket = line(limit=MAX_TICKET)
    runbook = line(limit=MAX_RUNBOOK, help_text="An address, or words that say what to do.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        states = dict.fromkeys([self.instance.state, *SETTABLE_STATES])
        if "state" in self.fields:
            self.fields["state"].choices = [(state, GroupState(state).label) for state in states]  # type: ignore[attr-defined]


@admin.register(FailureGroup)
class FailureGroupAdmin(TriageAdmin):
    form = GroupForm
    searched = ("group_id",)
    searched_words = "group id, fingerprint"
    ordering = ("-last_seen_at", "-group_id")
    list_filter = ("state",)
    list_display = (
        "group_id", masked("title", limit=MAX_LINE), "message_type", "state", "owner", "ticket", "first_seen_at",
        "last_seen_at",
    )  # fmt: skip
    triaged = (
        "owner", "state", "fixed_in_generation", "operator_disposition", "quiet_until", "quiet_until_generation",
        "quiet_until_count", "ticket", "runbook",
    )  # fmt: skip
    facts = (
        ("Fault", (
            "group_id", masked("title"), masked("template"), "message_type", masked("sample_line"), "sample",
            "first_seen_at", "last_seen_at", "state_at", "held_at",
        )),
        ("What belongs to it", ("fingerprints_of", "aliases_of", "counts_of", "trend_of", "notes_of")),
    )  # fmt: skip

    def matching(self, term: str) -> Q:
        groups = GroupFingerprint.objects.filter(fingerprint=term).values_list("group_id", flat=True)[:MAX_ROWS]
        return super().matching(term) | Q(pk__in=list(groups))

    def change(
        self, row: FailureGroup, *, user: Any, changes: Mapping[str, object], reason: str, row_version: int
    ) -> Changed:
        return change_group(group_id=row.group_id, user=user, changes=changes, reason=reason, row_version=row_version)

    def get_view_on_site_url(self, obj: Model | None = None) -> str | None:
        return page_of("group", obj)

    @admin.display(description="sample letter")
    def sample(self, group: FailureGroup) -> str:
        """Link to the letter that the group was named by."""
        return link("deadletter", group.sample_letter_id)

    @admin.display(description="fingerprints")
    def fingerprints_of(self, group: FailureGroup) -> str:
        """Return the fingerprints of the group."""
        columns = ("fingerprint", "version")
        return table(columns, list(group.fingerprints.order_by(*columns).values_list(*columns)[:MAX_ROWS]))

    @admin.display(description="ids merged into it")
    def aliases_of(self, group: FailureGroup) -> str:
        """Return the ids of groups that were merged into this one."""
        columns = ("alias", "merged_by", "merged_at")
        rows = group.aliases.order_by("-merged_at").values_list(*columns)[:MAX_ROWS]
        return table(("id", "by", "at"), list(rows))

    @admin.display(description="letters")
    def counts_of(self, group: FailureGroup) -> str:
        """Return how many current letters it has by source and status."""
        found = counts.of_fingerprints(self._fingerprints(group))
        letters: Counter[tuple[str, int]] = Counter()
        for count in found:
            letters[count.source, count.status] += count.n
        rows = [
            (dict(Source.choices).get(source, source), RecoveryStatus(status).label, n)
            for (source, status), n in sorted(letters.items())
        ]
        return table(("source", "recovery status", "letters"), rows)

    @admin.display(description="deaths of the last two days")
    def trend_of(self, group: FailureGroup) -> str:
        """Return deaths by hour and build, the latest first."""
        deaths = counts.deaths_since(self._fingerprints(group), timezone.now() - TREND)
        rows = [(death.hour, death.generation, death.n) for death in reversed(deaths)]
        return table(("hour", "build", "deaths"), rows[:MAX_ROWS])

    def _fingerprints(self, group: FailureGroup) -> list[counts.Fingerprint]:
        return list(group.fingerprints.values_list("fingerprint", "version")[:MAX_ROWS])

    @admin.display(description="notes")
    def notes_of(self, group: FailureGroup) -> str:
        """Return what people wrote, the newest first."""
        return notes(group.notes)


@admin.register(GroupAlias)
class GroupAliasAdmin(ReadingAdmin):
    searched = ("alias",)
    ordering = ("alias",)
    list_display = ("alias", "group_id", "merged_by", "merged_at")
    columns = ("alias", group_of, "merged_by", "merged_at")


@admin.register(GroupDelta)
class GroupDeltaAdmin(ReadingAdmin):
    """Changes of groups' counts that wait to be folded."""

    searched = ("id",)
    ordering = ("-id",)
    list_display = ("id", "fingerprint", "source_table", "recovery_status", "operator_disposition", "n", "deaths")


@admin.register(SubjectDelta)
class SubjectDeltaAdmin(ReadingAdmin):
    """Changes of subjects' counts that wait to be folded."""

    searched = ("id",)
    ordering = ("-id",)
    list_display = ("id", "subject_type", "subject_id", "recovery_status", "n")
