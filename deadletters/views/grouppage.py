"""What the page of one failure group shows, each region read in a time of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from deadletters import triage
from deadletters.models import FailureGroup, GroupState, RecoveryStatus
from deadletters.queries import groupfacts, recent, regions, runs, timeline, totals, trends
from deadletters.queries.recent import Recent
from deadletters.triage.changes import SETTABLE_STATES
from deadletters.views import shell
from deadletters.views.parameters import form_of
from deadletters.words import access
from deadletters.words.filters import LetterFilter
from deadletters.words.results import Result, Try, results

FIELDS = (
    "owner",
    "state",
    "fixed_in_generation",
    "operator_disposition",
    "quiet_until",
    "quiet_until_generation",
    "quiet_until_count",
    "ticket",
    "runbook",
)
NEWEST = 20
"""Letters that the page lists."""
RUNS = 5
"""Runs that the page lists."""
LAST_NOTES = 2
"""Notes that stand beside what worked."""


@dataclass(frozen=True, kw_only=True)
class Worked:
    """The newest runs on a group, and what all its recoveries that are known came to."""

    runs: Sequence[runs.Row]
    results: Sequence[Result]


def context(request: HttpRequest, found: FailureGroup, read: regions.Reader) -> dict[str, Any]:
    """Return all that the page shows."""
    now = timezone.now()
    span = trends.chosen(request.GET.get("trend", ""), found.last_seen_at, now=now)
    numbers = read("group numbers", lambda: groupfacts.numbers(found, span, now=now))
    sample = read("group sample", lambda: groupfacts.sample(found))
    newest = read("group letters", lambda: recent.of_group(found.group_id))
    worked = read("group recoveries", lambda: _worked(found, newest.value))
    records = read("group records", lambda: groupfacts.records(found))
    kept = records.value
    by_status = numbers.value.counts.all.by_status if numbers.value else {}
    return {
        **triage_context(request, found, timeline_of=kept.timeline if kept else None),
        **notes_context(request, found, notes=kept.notes if kept else ()),
        "numbers": numbers,
        "opens": by_status.get(RecoveryStatus.PENDING, 0),
        "helds": by_status.get(RecoveryStatus.HELD, 0),
        "recoverable": totals.of_statuses(by_status) if numbers.value else None,
        "sample": sample,
        "newest": newest,
        "worked": worked,
        "records": records,
        "last_notes": kept.notes[:LAST_NOTES] if kept else (),
        "shown": newest.value.rows[:NEWEST] if newest.value else (),
        "span": span,
        "spans": tuple(trends.SPANS.values()),
        "filters": LetterFilter(group=str(found.group_id)),
        "commands": shell.of_group(request, found),
        "retry": request.get_full_path() if request.method == "GET" else reverse("deadletters:group", args=[found.pk]),
    }


def _worked(found: FailureGroup, newest: Recent | None) -> Worked:
    rows = runs.of_group(found.group_id)
    tries = [Try(verb=row.run.kind, by=row.run.actor, at=row.run.created_at, ends=row.totals) for row in rows]
    singles = [] if newest is None else newest.singles
    tries += [
        Try(verb="single", by=one.actor, at=one.sent_at, ends={one.verdict: 1} if one.verdict else {})
        for one in singles
    ]
    return Worked(
        runs=[replace(row, group=found if row.run.group_id else None) for row in rows[:RUNS]], results=results(tries)
    )


def triage_context(
    request: HttpRequest, found: FailureGroup, *, timeline_of: timeline.Timeline | None
) -> dict[str, Any]:
    """Return what the triage form and what hangs on it show; `timeline_of` is None where it could not be read."""
    return {
        "group": found,
        "form": form_of(found, FIELDS),
        "states": _states(found),
        "timeline": timeline_of,
        "timeline_title": _("What was done"),
        "audited": f"group={found.group_id}",
        "may_triage": request.user.has_perm(access.TRIAGE),
        "now": timezone.now(),
    }


def notes_context(request: HttpRequest, found: FailureGroup, *, notes: Sequence[Any]) -> dict[str, Any]:
    """Return what the notes and their form show."""
    return {
        "notes": notes,
        "note_address": reverse("deadletters:add_group_note", args=[found.group_id]),
        "note_key": found.group_id,
        "may_triage": request.user.has_perm(access.TRIAGE),
        "max_note": triage.MAX_NOTE,
        "now": timezone.now(),
    }


def _states(found: FailureGroup) -> Sequence[tuple[str, str]]:
    """Return the states that a person may choose, the present one among them."""
    return [(state.value, str(state.label)) for state in GroupState if state in SETTABLE_STATES or state == found.state]
