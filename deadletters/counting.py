"""The folder: adds waiting changes to the counts of groups and subjects, and makes and names new groups."""

from datetime import timedelta

from django.db import connection, transaction
from django.db.models.functions import Now

from deadletters.models import DeadLetter, FailureGroup, GroupHour, GroupState
from deadletters.words.fingerprints import fingerprint

FOLD_ROWS = 20_000
"""Changes that one transaction folds."""

NAMED_ROWS = 200
TREND_DAYS = 90
NEW_HOURS = 24
"""How long a group that nobody touched counts as new."""


def fold(at_most: int = 1_000_000) -> int:
    """Fold what waits, in transactions of FOLD_ROWS, and name the new groups; return how many changes there were.

    Exactness does not depend on it: readers add what is still waiting.
    """
    folded = 0
    for function in ("fold_group_deltas", "fold_subject_deltas"):
        while folded < at_most and (eaten := _fold_once(function)):
            folded += eaten
    name_new_groups()
    return folded


def _fold_once(function: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [FOLD_ROWS])
        return int(cursor.fetchone()[0])


def name_new_groups() -> int:
    """Give groups without a title what their sample says; return how many were named."""
    named = 0
    with transaction.atomic():
        unnamed = FailureGroup.objects.select_for_update(skip_locked=True).filter(title="")[:NAMED_ROWS]
        for group in unnamed:
            _name(group)
            named += 1
    return named


def _name(group: FailureGroup) -> None:
    sample = DeadLetter.objects.filter(dead_letter_id__in=[group.sample_letter_id])
    letter = sample.only("error_text", "cause", "failure_reason").first()
    text = letter.error_text if letter else group.sample_line
    cause, reason = (letter.cause or "", letter.failure_reason) if letter else ("", 99)
    known = fingerprint(text, cause=cause, reason=reason)
    FailureGroup.objects.filter(pk=group.pk).update(title=known.title, template=known.template, place=known.place)


def keep_house() -> None:
    """Forget trends that are older than TREND_DAYS; groups that nobody touched for NEW_HOURS are no longer new."""
    GroupHour.objects.filter(hour__lt=Now() - timedelta(days=TREND_DAYS)).delete()
    new = FailureGroup.objects.filter(state=GroupState.NEW, first_seen_at__lt=Now() - timedelta(hours=NEW_HOURS))
    new.update(state=GroupState.ONGOING, state_at=Now())
