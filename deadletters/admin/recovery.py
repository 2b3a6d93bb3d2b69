"""Recovery runs with their items, and the builds that were deployed."""

from django.contrib import admin
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from deadletters.admin.reading import ReadingAdmin, group_of, letter_of, run_of
from deadletters.models import Generation, RecoveryItem, RecoveryPass, RecoveryRun
from deadletters.queries.replays import of_build
from queues.admin.reading import EMPTY, MAX_LINE, masked, masked_json


@admin.display(description="page")
def page_of(run: RecoveryRun) -> str:
    """Link to the page on which the run is started, paused and stopped."""
    try:
        address = reverse("deadletters:run", args=[run.run_id])
    except NoReverseMatch:  # a host without the pages
        return EMPTY
    return format_html('<a href="{}">look at it, start, pause or stop it</a>', address)


@admin.register(RecoveryRun)
class RecoveryRunAdmin(ReadingAdmin):
    """Runs; `scope` may list thousands of ids, so that a list never reads it."""

    heavy = ("scope", "plan")
    searched = ("run_id", "group_id")
    ordering = ("-created_at", "-run_id")
    list_display = (
        "run_id", "kind", "state", masked("scope_words", "scope", limit=MAX_LINE), "actor", "frozen_count",
        "created_at", "finished_at",
    )  # fmt: skip
    columns = (
        "run_id", "kind", "state", masked("scope_words", "scope"), masked_json("scope", "scope as asked for"),
        masked_json("plan"), group_of, "generation", "actor", "reason", "approved_by", "created_at", "starts_at",
        "frozen_at", "frozen_count", "fresh_count", "started_at", "finished_at", "wave", "stop_reason",
        "stepped_at", page_of,
    )  # fmt: skip


@admin.register(RecoveryItem)
class RecoveryItemAdmin(ReadingAdmin):
    searched = ("item_id", "run", "dead_letter_id")
    ordering = ("-item_id",)
    list_display = ("item_id", "run_id", "dead_letter_id", "state", "is_canary", "sent_at", "ended_at")
    columns = (
        "item_id", run_of, letter_of, "place", "stream_id", "state", "is_canary", "is_next", "life",
        "row_version", "fingerprint", "fingerprint_version", "sent_at", "deadline_at", "delayed_until", "ended_at",
        masked("why"),
    )  # fmt: skip


@admin.register(Generation)
class GenerationAdmin(ReadingAdmin):
    searched = ("service",)
    ordering = ("-first_seen_at", "-id")
    list_display = ("service", "build", "first_seen_at", "last_seen_at", "replay_begun_at", "replay_ended_at")
    columns = (*list_display, "types", "perspectives", "replayed")

    @admin.display(description="replayed")
    def replayed(self, generation: Generation) -> str:
        """Say how many groups and letters the build replayed, and how those ended."""
        result = of_build(generation)
        by_state = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in result.totals.items() if n)
        return f"{result.groups:,} groups, {result.letters:,} letters" + (f": {by_state}" if by_state else "")


@admin.register(RecoveryPass)
class RecoveryPassAdmin(ReadingAdmin):
    """Walks that bring letters in line with a policy or group that changed; none, most of the time."""

    searched = ("group_id",)
    ordering = ("-id",)
    list_display = ("id", "cause", "failure_reason", "group_id", "asked_at", "reached_at")
