"""The base of this app's admins: the pages' permission to view is the permission here."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from deadletters.words import access
from deadletters.words.filters import reason_name
from queues.admin.reading import EMPTY
from queues.admin.reading import ReadingAdmin as BoundedAdmin

MAX_ROWS = 100
"""Rows of another table that are shown on a page."""


class ReadingAdmin(BoundedAdmin):
    """A table that those see who may see dead letters, whatever model permissions they have."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return request.user.has_perm(access.VIEW)


def link(model: str, key: UUID | int | None) -> str:
    """Return a key as a link to its page in the admin; EMPTY for none."""
    if key is None:
        return EMPTY
    try:
        return format_html('<a href="{}">{}</a>', reverse(f"admin:deadletters_{model}_change", args=[key]), key)
    except NoReverseMatch:  # a host's own admin site
        return str(key)


@admin.display(description="dead letter")
def letter_of(row: Any) -> str:
    """Link to the row's dead letter."""
    return link("deadletter", row.dead_letter_id)


@admin.display(description="group")
def group_of(row: Any) -> str:
    """Link to the row's failure group."""
    return link("failuregroup", row.group_id)


@admin.display(description="recovery run")
def run_of(row: Any) -> str:
    """Link to the row's recovery run."""
    return link("recoveryrun", row.run_id)


@admin.display(description="failure reason")
def reason_of(row: Any) -> str:
    """Name the row's failure reason."""
    return words(reason_name(row.failure_reason))


def words(name: str) -> str:
    """Return a name of the code as words."""
    return name.replace("_", " ")


@admin.display(description="cause")
def cause_of(row: Any) -> str:
    """Say the row's cause in words."""
    return words(row.cause or "not recorded")
