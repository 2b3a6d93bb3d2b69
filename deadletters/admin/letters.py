"""Dead letters and their deaths."""

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from deadletters.admin.reading import ReadingAdmin
from deadletters.models import DeadLetter, DeadLetterDeath
from queues.words.redaction import mask_text

HEAVY = ("envelope", "envelope_raw", "metadata", "source_row", "failure_detail", "error_text")
"""What is never read here; bodies and errors are masked on the letter's page, which the admin links to."""


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadingAdmin):
    list_display = ("dead_letter_id", "message_type", "failure_reason", "recovery_status", "deaths", "dead_lettered_at")
    list_filter = ("recovery_status", "source_table")
    search_fields = ("dead_letter_id__exact", "source_id__exact")
    ordering = ("-dead_lettered_at", "-dead_letter_id")
    exclude = (*HEAVY, "error_line")
    readonly_fields = ("error",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        return super().get_queryset(request).defer(*HEAVY)

    @admin.display(description="error")
    def error(self, letter: DeadLetter) -> str:
        """Return the one-line error with secrets masked."""
        return mask_text(letter.error_line or "")

    def get_view_on_site_url(self, obj: Model | None = None) -> str | None:
        return reverse("deadletters:letter", args=[obj.pk]) if obj else None


@admin.register(DeadLetterDeath)
class DeadLetterDeathAdmin(ReadingAdmin):
    list_display = ("dead_letter_id", "number", "cause", "failure_reason", "attempts", "verdict", "dead_lettered_at")
    list_filter = ("cause", "verdict")
    search_fields = ("dead_letter_id__exact",)
    ordering = ("-id",)
    exclude = ("failure_detail", "error_text", "last_reported_error")

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetterDeath]:
        return super().get_queryset(request).defer("failure_detail", "error_text", "last_reported_error")
