"""What the rows of lists show of letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Window

from deadletters.models import DeadLetter, DeadLetterSubject

LIST_FIELDS = (
    "dead_letter_id",
    "dead_lettered_at",
    "source_table",
    "message_type",
    "failure_reason",
    "cause",
    "error_line",
    "attempts_when_dlq",
    "deaths",
    "recovery_status",
    "operator_disposition",
    "held_by_group",
    "owner",
    "destination",
    "perspective_name",
    "edited_version",
    "row_version",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the list with its first subject."""

    letter: DeadLetter
    subject: DeadLetterSubject | None
    more_subjects: int


def with_subjects(letters: Sequence[DeadLetter]) -> Sequence[Row]:
    """Return letters as rows, each with its first subject."""
    about = DeadLetterSubject.objects.filter(dead_letter__in=[letter.dead_letter_id for letter in letters])
    counted = about.annotate(n=Window(Count("position"), partition_by=F("dead_letter")))
    firsts = counted.order_by("dead_letter", "position").distinct("dead_letter")
    first = {subject.dead_letter_id: subject for subject in firsts}
    return [_row(letter, first.get(letter.dead_letter_id)) for letter in letters]


def _row(letter: DeadLetter, subject: Any) -> Row:
    return Row(letter=letter, subject=subject, more_subjects=subject.n - 1 if subject else 0)
