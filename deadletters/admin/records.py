"""What people wrote, did, kept and saw."""

from django.contrib import admin

from deadletters.admin.reading import ReadingAdmin, group_of, letter_of, run_of
from deadletters.models import LastVisit, Note, OperatorAction, SavedView
from queues.admin.reading import MAX_LINE, masked, masked_json


@admin.register(OperatorAction)
class OperatorActionAdmin(ReadingAdmin):
    searched = ("dead_letter_id", "group_id", "run_id")
    ordering = ("-at", "-id")
    list_display = ("at", "actor", "action", "dead_letter_id", "group_id", masked("reason", limit=MAX_LINE))
    columns = (
        "at", "actor", "actor_id", "action", letter_of, group_of, run_of, masked_json("before"),
        masked_json("after"), masked("reason"),
    )  # fmt: skip


@admin.register(Note)
class NoteAdmin(ReadingAdmin):
    searched = ("dead_letter", "group")
    ordering = ("-id",)
    list_display = ("written_at", "author", "dead_letter_id", "group_id", masked("text", limit=MAX_LINE))
    columns = ("written_at", "author", letter_of, group_of, masked("text"))


@admin.register(SavedView)
class SavedViewAdmin(ReadingAdmin):
    searched = ("owner_id",)
    ordering = ("-id",)
    list_display = ("name", "page", "owner", "is_shared", "created_at")


@admin.register(LastVisit)
class LastVisitAdmin(ReadingAdmin):
    searched = ("visitor_id",)
    ordering = ("-id",)
    list_display = ("visitor_id", "page", "seen_at", "previous_at")
