"""Dead letters with what belongs to them, and their deaths."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from deadletters.admin.reading import MAX_ROWS, ReadingAdmin, cause_of, letter_of, link, reason_of, words
from deadletters.admin.triaging import TriageAdmin, TriageForm, line
from deadletters.models import DeadLetter, DeadLetterDeath, Disposition, RecoveryStatus
from deadletters.queries import counts
from deadletters.triage import Changed, change_letter
from deadletters.triage.changes import MAX_BUILD, MAX_OWNER
from deadletters.words.filters import reason_name
from queues.admin.reading import MAX_LINE, masked, table
from queues.words.outcomes import FailureReason
from queues.words.redaction import mask_text
from queues.words.text import cut

HEAVY = ("envelope", "envelope_raw", "metadata", "source_row", "failure_detail", "error_text")
"""What is never read here; bodies and errors are masked on the letter's page, which the admin links to."""


class ReasonFilter(admin.SimpleListFilter):
    """Letters of one failure reason."""

    title = "failure reason"
    parameter_name = "failure_reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(str(reason.value), words(reason_name(reason))) for reason in FailureReason]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        known = {str(reason.value) for reason in FailureReason}
        return queryset.filter(failure_reason=self.value()) if self.value() in known else queryset


class LetterForm(TriageForm):
    owner = line(limit=MAX_OWNER)
    operator_disposition = forms.TypedChoiceField(
        label="Operator disposition",
        choices=Disposition.choices,
        coerce=int,
        help_text="What a person decides wins over everything automatic; the recovery status follows it.",
    )
    quiet_until = forms.SplitDateTimeField(required=False, widget=AdminSplitDateTime)
    quiet_until_generation = line(limit=MAX_BUILD, help_text="Quiet until workers of this build report in.")


@admin.register(DeadLetter)
class DeadLetterAdmin(TriageAdmin):
    form = LetterForm
    heavy = HEAVY
    searched = ("dead_letter_id", "source_id", "stream_id", "error_fingerprint")
    ordering = ("-dead_lettered_at", "-dead_letter_id")
    list_filter = ("recovery_status", ReasonFilter)
    list_display = (
        "dead_letter_id", masked("message_type"), "recovery_status", "dead_lettered_at",
        masked("error_line", "error", limit=MAX_LINE), reason_of, "operator_disposition", "owner", "deaths",
    )  # fmt: skip
    triaged = ("owner", "operator_disposition", "quiet_until", "quiet_until_generation")
    facts = (
        ("Failure", (
            cause_of, reason_of, masked("error_line", "error"), "error_fingerprint", "error_fingerprint_version",
            "attempts_when_dlq", "delays_when_dlq", "deaths", "dead_lettered_at", "first_dead_lettered_at",
            "dead_lettered_by", masked("generation"),
        )),
        ("Message", (
            "dead_letter_id", "source_table", "source_id", masked("message_type"), masked("destination"),
            masked("perspective_name"),
            "stream_id", "life", "envelope_bytes",
        )),
        ("Recovery", (
            "recovery_status", "recovery_attempts", "recoveries_total", "last_recovery_at", "next_recovery_at",
            "recovered_at", "retried_on_generations", "current_item_id", "superseded_by", "operator_actor",
            masked("operator_notes"), "fingerprint_checked_at",
        )),
        ("What belongs to it", ("subjects_of", "deaths_of", "payloads_of", "notes_of")),
    )  # fmt: skip

    def listed(self, rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        """Return the current letters; one that another took the place of is found by searching its id."""
        return rows.filter(superseded_by=None)

    def matching(self, term: str) -> Q:
        """Return which letters a search finds; indexes of current letters hold no others."""
        current = self.found_by(term, ("source_id", "error_fingerprint"))
        return self.found_by(term, ("dead_letter_id", "stream_id")) | Q(current, superseded_by=None)

    def change(
        self, row: DeadLetter, *, user: Any, changes: Mapping[str, object], reason: str, row_version: int
    ) -> Changed:
        return change_letter(
            dead_letter_id=row.dead_letter_id, user=user, changes=changes, reason=reason, row_version=row_version
        )

    def get_view_on_site_url(self, obj: Model | None = None) -> str | None:
        return page_of("letter", obj)

    @admin.display(description="subjects")
    def subjects_of(self, letter: DeadLetter) -> str:
        """Return what the latest death was about, with how many open letters are about the same."""
        subjects = list(letter.subjects.order_by("position")[:MAX_ROWS])
        about = counts.of_subjects(subject.subject_key for subject in subjects)
        rows = [(s.type, s.id, about.get(s.subject_key, {}).get(RecoveryStatus.PENDING, 0)) for s in subjects]
        return table(("type", "id", "open letters"), rows)

    @admin.display(description="deaths")
    def deaths_of(self, letter: DeadLetter) -> str:
        """Return the letter's deaths, the latest first."""
        columns = ("id", "number", "dead_lettered_at", "cause", "attempts", "generation", "verdict", "verdict_at")
        deaths = letter.death_rows.order_by("-number").values_list(*columns)[:MAX_ROWS]
        rows = [
            (link("deadletterdeath", key), number, at, words(cause), attempts, build, words(verdict or ""), answered_at)
            for key, number, at, cause, attempts, build, verdict, answered_at in deaths
        ]
        return table(("id", "number", "at", "cause", "attempts", "build", "verdict", "verdict at"), rows)

    @admin.display(description="payload versions")
    def payloads_of(self, letter: DeadLetter) -> str:
        """Return who edited the payload when and why; the payloads are on the letter's page."""
        columns = ("version", "edited_by", "at", "reason")
        rows = letter.payloads.order_by("version").values_list(*columns)[:MAX_ROWS]
        return table(("version", "edited by", "at", "reason"), list(rows))

    @admin.display(description="notes")
    def notes_of(self, letter: DeadLetter) -> str:
        """Return what people wrote, the newest first."""
        return notes(letter.notes)


@admin.register(DeadLetterDeath)
class DeadLetterDeathAdmin(ReadingAdmin):
    heavy = ("failure_detail",)
    searched = ("dead_letter",)
    ordering = ("-id",)
    list_display = (
        "id", "dead_letter_id", "number", cause_of, reason_of, "attempts", "verdict", "dead_lettered_at",
    )  # fmt: skip
    columns = (
        letter_of, "number", "dead_lettered_at", "dead_lettered_by", "generation", "life", cause_of, reason_of,
        masked("error_text"), masked("last_reported_error"), "error_fingerprint", "error_fingerprint_version",
        "attempts", "delays", "recovery_item_id", "recovery_sent_at", "recovery_actor", "verdict", "verdict_at",
    )  # fmt: skip


def page_of(name: str, obj: Model | None) -> str | None:
    """Return the address of the row's page on the dashboard."""
    try:
        return reverse(f"deadletters:{name}", args=[obj.pk]) if obj else None
    except NoReverseMatch:  # a host may leave the pages out
        return None


def notes(of: Any) -> str:
    """Return the newest of a letter's or a group's notes as a table."""
    rows = of.order_by("-written_at", "-id").values_list("written_at", "author", "text")[:MAX_ROWS]
    return table(("at", "by", "text"), [(at, by, mask_text(cut(text, MAX_LINE * 4))) for at, by, text in rows])
