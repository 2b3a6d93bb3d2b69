"""What belongs to one letter: its deaths, runs, subjects, notes, versions, and what was done to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, ExpressionWrapper, F, Q, QuerySet

from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterPayload,
    DeadLetterSubject,
    FailureGroup,
    Note,
    OperatorAction,
    RecoveryItem,
    RecoveryRun,
)
from deadletters.queries.gathering import Part, gather
from queues.models import DeliveryLogEntry

DEATHS, NOTES, SUBJECTS, RUNS, VERSIONS = 50, 100, 200, 20, 50
EVENTS = 30
"""Events of a timeline on one page; as many of each kind are read, and one more."""

MILLISECOND = timedelta(milliseconds=1)
LOGGED_LATE = timedelta(minutes=1)
"""How much later than it ended a run may be logged."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All of it, the latest first; subjects in their order.

    deaths, notes, items: as many as a page shows; history: what its timeline tells, before the time asked for.
    """

    deaths: Sequence[DeadLetterDeath]
    notes: Sequence[Note]
    subjects: Sequence[DeadLetterSubject]
    versions: Sequence[DeadLetterPayload]
    items: Sequence[RecoveryItem]
    group: FailureGroup | None
    history: "History"


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened to a letter, each kind the latest first."""

    log: Sequence[DeliveryLogEntry]
    deaths: Sequence[DeadLetterDeath]
    notes: Sequence[Note]
    actions: Sequence[OperatorAction]
    items: Sequence[RecoveryItem]


NOTHING = Parts(
    deaths=(),
    notes=(),
    subjects=(),
    versions=(),
    items=(),
    group=None,
    history=History(log=(), deaths=(), notes=(), actions=(), items=()),
)
"""Stands for what could not be read."""


def of(letter: DeadLetter, before: datetime | None = None) -> Parts:
    """Return what belongs to a letter; its history before a time, in one statement."""
    died = letter.death_rows.order_by("-number")
    noted = letter.notes.order_by("-written_at", "-id")
    found = gather(
        deaths=Part(rows=died[:DEATHS], without=["failure_detail"]),
        notes=Part(rows=noted[:NOTES]),
        subjects=Part(rows=letter.subjects.order_by("position")[:SUBJECTS]),
        versions=Part(rows=letter.payloads.order_by("-version")[:VERSIONS], without=["envelope", "envelope_raw"]),
        items=Part(rows=_items(letter)),
        runs=Part(rows=RecoveryRun.objects.filter(pk__in=_items(letter).values("run")), without=["scope"]),
        groups=Part(rows=_group(letter)),
        log=Part(rows=_log(letter, before), without=["failure_detail"]),
        actions=Part(rows=_actions(letter, before)),
        old_deaths=Part(rows=_before(died, "dead_lettered_at", before), without=["failure_detail"]),
        old_notes=Part(rows=_before(noted, "written_at", before)),
    )
    items = _with_runs(found["items"], found["runs"])
    return Parts(
        deaths=found["deaths"],
        notes=found["notes"],
        subjects=found["subjects"],
        versions=found["versions"],
        items=items,
        group=found["groups"][0] if found["groups"] else None,
        history=History(
            log=found["log"],
            deaths=found["deaths"] if before is None else found["old_deaths"],
            notes=found["notes"] if before is None else found["old_notes"],
            actions=found["actions"],
            items=items,
        ),
    )


def _before(rows: QuerySet[Any], column: str, before: datetime | None) -> QuerySet[Any]:
    """Return the rows before a time; without one a row at most, since the newest are read anyway."""
    return rows[:1] if before is None else rows.filter(**{f"{column}__lt": before})[: EVENTS + 1]


def _items(letter: DeadLetter) -> QuerySet[RecoveryItem]:
    return RecoveryItem.objects.filter(dead_letter_id=letter.dead_letter_id).order_by("-run__created_at")[:RUNS]


def _with_runs(items: Sequence[RecoveryItem], runs: Sequence[RecoveryRun]) -> Sequence[RecoveryItem]:
    known = {run.run_id: run for run in runs}
    for item in items:
        item.run = known[item.run_id]
    return items


def _group(letter: DeadLetter) -> QuerySet[FailureGroup]:
    """Return the group of a letter; none while it is not folded, and for one without a fingerprint."""
    pair = {
        "fingerprints__fingerprint": letter.error_fingerprint or "",
        "fingerprints__version": letter.error_fingerprint_version or 1,
    }
    return FailureGroup.objects.filter(**pair)


def _log(letter: DeadLetter, before: datetime | None) -> QuerySet[DeliveryLogEntry]:
    log = DeliveryLogEntry.objects.filter(message_id__in=_message_ids(letter)).order_by("-logged_at", "-id")
    if before is None:
        return log[: EVENTS + 1]
    ended = ExpressionWrapper(F("started_at") + F("duration_ms") * MILLISECOND, DateTimeField())
    is_before = Q(logged_at__lt=before) | Q(ended_at__lt=before)
    return log.alias(ended_at=ended).filter(is_before, logged_at__lt=before + LOGGED_LATE)[: EVENTS + 1]


def _actions(letter: DeadLetter, before: datetime | None) -> QuerySet[OperatorAction]:
    about = Q(dead_letter_id=letter.dead_letter_id) | Q(message_id__in=_message_ids(letter))
    actions = OperatorAction.objects.filter(about).exclude(action="note").order_by("-at", "-id")
    return (actions if before is None else actions.filter(at__lt=before))[: EVENTS + 1]


def _message_ids(letter: DeadLetter) -> Sequence[Any]:
    """Return the ids that a letter's message has had; several once an edited payload was sent."""
    return list({letter.source_id, *getattr(letter, "message_ids", ())})
