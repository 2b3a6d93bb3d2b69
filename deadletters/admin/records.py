"""What happened to messages, and what people did."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from deadletters.admin.reading import ReadingAdmin
from deadletters.models import OperatorAction
from queues.models import DeliveryLogEntry


@admin.register(DeliveryLogEntry)
class DeliveryLogAdmin(ReadingAdmin):
    list_display = ("logged_at", "source", "message_id", "attempt", "outcome", "duration_ms", "generation")
    list_filter = ("outcome", "source")
    search_fields = ("message_id__exact",)
    ordering = ("-logged_at", "-id")
    exclude = ("failure_message", "failure_detail")

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeliveryLogEntry]:
        return super().get_queryset(request).defer("failure_message", "failure_detail")


@admin.register(OperatorAction)
class OperatorActionAdmin(ReadingAdmin):
    list_display = ("at", "actor", "action", "dead_letter_id", "reason")
    list_filter = ("action",)
    search_fields = ("dead_letter_id__exact", "actor")
    ordering = ("-at", "-id")
