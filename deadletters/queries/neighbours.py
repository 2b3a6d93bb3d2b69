"""Reads of a letter's neighbours: the one before and after it in a list, and others like it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Func, IntegerField, QuerySet, UUIDField, Value

from deadletters.models import DeadLetter, DeadLetterSubject
from deadletters.queries import letters
from deadletters.words.filters import Cursor, LetterFilter

SIMILAR = 5
SEARCHED = 200
"""How many letters about a subject, those that were made last, are looked through for the newest."""

NO_LETTER = UUID(int=0)

_FAULT, _SUBJECT = 0, 1
_COLUMNS = ("dead_letter_id", "dead_lettered_at", "message_type", "error_line", "recovery_status")


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Where the keys for previous and next lead: to the newer and to the older letter of a list, where there is one."""

    newer: UUID | None
    older: UUID | None


@dataclass(frozen=True, kw_only=True)
class Similar:
    """The newest letters of the same fault, and those about the same first subject, without the letter itself."""

    of_fault: Sequence[DeadLetter]
    about_subject: Sequence[DeadLetter]


def in_list(letter: DeadLetter, filters: LetterFilter, *, now: datetime) -> Steps:
    """Return the neighbours of a letter in the list that a filter names, in one statement; it need not be in it."""
    place = Cursor(at=letter.dead_lettered_at, id=letter.dead_letter_id)
    newer, older = letters.sides(filters, place, now=now)
    found = [part.values_list("dead_lettered_at", "dead_letter_id")[:1] for part in (*newer, *older)]
    places = list(found[0].union(*found[1:], all=True)) if len(found) > 1 else list(found[0])
    own = (place.at, place.id)
    return Steps(
        newer=min((each for each in places if each > own), default=(None, None))[1],
        older=max((each for each in places if each < own), default=(None, None))[1],
    )


def like(letter: DeadLetter, subject: DeadLetterSubject | None) -> Similar:
    """Return letters like one, in one statement."""
    others = DeadLetter.objects.filter(superseded_by=None).exclude(pk=letter.pk).order_by(*letters.ORDER)
    parts = [
        _named(part, kind) for kind, part in ((_FAULT, _same(others, letter)), (_SUBJECT, _about(others, subject)))
    ]
    found = sorted(parts[0].union(parts[1], all=True), key=lambda one: one.dead_lettered_at, reverse=True)
    return Similar(
        of_fault=[one for one in found if one.kind == _FAULT],
        about_subject=[one for one in found if one.kind == _SUBJECT],
    )


def _named(part: QuerySet[DeadLetter], kind: int) -> QuerySet[Any]:
    return part.annotate(kind=Value(kind, IntegerField())).only(*_COLUMNS)[:SIMILAR]


def _same(others: QuerySet[DeadLetter], letter: DeadLetter) -> QuerySet[DeadLetter]:
    """Return the letters of the same fingerprint; a letter without one is like none."""
    return others.filter(
        error_fingerprint=letter.error_fingerprint or "",
        error_fingerprint_version=letter.error_fingerprint_version or 1,
    )


def _about(others: QuerySet[DeadLetter], subject: DeadLetterSubject | None) -> QuerySet[DeadLetter]:
    if subject is None:
        return others.filter(pk=NO_LETTER)
    key = Func(Value(subject.type), Value(subject.id), function="dead_letter_subject_key", output_field=UUIDField())
    about = DeadLetterSubject.objects.filter(subject_key=key, type=subject.type, id=subject.id)
    return others.filter(pk__in=about.order_by("-dead_letter").values("dead_letter")[:SEARCHED])
