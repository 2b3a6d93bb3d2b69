"""Reads for exports: chunks of the list in its order, one letter's payload in pieces."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import (
    BooleanField,
    Case,
    ExpressionWrapper,
    Func,
    IntegerField,
    JSONField,
    Q,
    QuerySet,
    TextField,
    When,
)
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast, Coalesce, Left

from deadletters.models import DeadLetter, DeadLetterSubject
from deadletters.queries import letters
from deadletters.queries.letterrows import Row
from deadletters.words.errors import NoSuchLetter, StaleChange
from deadletters.words.filters import LetterFilter

PAGE = 2_000
"""Letters that one statement looks for: a text may cost a scan each time."""

CHUNK = 200
"""Letters whose columns and payloads are read at once."""

PIECE_BYTES = 4 * 1024 * 1024
"""Bytes of a payload that are read at once."""

FACTS = (
    "dead_letter_id",
    "source_id",
    "source_table",
    "message_type",
    "stream_id",
    "destination",
    "perspective_name",
    "recovery_status",
    "operator_disposition",
    "owner",
    "failure_reason",
    "cause",
    "error_line",
    "attempts_when_dlq",
    "delays_when_dlq",
    "deaths",
    "recoveries_total",
    "dead_lettered_at",
    "first_dead_lettered_at",
    "recovered_at",
    "generation",
    "error_fingerprint",
    "envelope_bytes",
)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """One letter of a list: the columns FACTS, its first subjects, and its payload where that was asked for.

    `payload`: JSON text, None for a large one; one that is longer than the limit was cut behind it.
    """

    facts: Mapping[str, Any]
    subjects: Sequence[tuple[str, str]]
    more_subjects: int
    payload: str | None
    has_exact_bytes: bool


def chunks(
    filters: LetterFilter, limit: int, *, now: datetime, subjects: int, payload_limit: int | None
) -> Iterator[Sequence[Exported]]:
    """Yield at most `limit` matching letters in chunks, the newest first, each chunk by statements of its own.

    payload_limit: characters of a payload that are read; None = payloads are not.
    """
    place, left = filters, limit
    while left > 0:
        rows = letters.newest(place, min(PAGE, left), now=now)
        if not rows:
            return
        for start in range(0, len(rows), CHUNK):
            yield _exported(rows[start : start + CHUNK], subjects, payload_limit)
        place, left = replace(place, after=letters.place_of(rows[-1])), left - len(rows)


def _exported(rows: Sequence[Row], subjects: int, payload_limit: int | None) -> Sequence[Exported]:
    ids = [row.letter.dead_letter_id for row in rows]
    has_raw = ExpressionWrapper(Q(envelope_raw__isnull=False), BooleanField())
    read: QuerySet[Any] = DeadLetter.objects.filter(pk__in=ids).annotate(has_exact_bytes=has_raw)
    names = [*FACTS, "has_exact_bytes"]
    if payload_limit is not None:
        read, names = _with_payloads(read, payload_limit), [*names, "payload"]
    found = {values["dead_letter_id"]: values for values in read.values(*names)}
    about = _subjects_of(ids, subjects)
    return [_one(row, found[row.letter.pk], about) for row in rows if row.letter.pk in found]


def _one(row: Row, values: dict[str, Any], about: Mapping[UUID, list[tuple[str, str]]]) -> Exported:
    shown = about.get(row.letter.dead_letter_id, [])
    return Exported(
        payload=values.pop("payload", None),
        has_exact_bytes=values.pop("has_exact_bytes"),
        facts=values,
        subjects=shown,
        more_subjects=row.more_subjects + bool(row.subject) - len(shown),
    )


def _with_payloads(read: QuerySet[Any], limit: int) -> QuerySet[Any]:
    """Read payloads unless they are large; where a size is not recorded, the size of what is stored decides."""
    stored = Func("envelope", function="pg_column_size", output_field=IntegerField())
    whole = Coalesce(KeyTransform("event_data", "envelope"), "envelope", output_field=JSONField())
    text = Left(Cast(whole, TextField()), limit + 1)
    sized: QuerySet[Any] = read.annotate(read_size=Coalesce("envelope_bytes", stored))
    with_text: QuerySet[Any] = sized.annotate(
        payload=Case(When(read_size__lte=limit, then=text), output_field=TextField())
    )
    return with_text


def _subjects_of(ids: Sequence[UUID], limit: int) -> Mapping[UUID, list[tuple[str, str]]]:
    about: dict[UUID, list[tuple[str, str]]] = {}
    rows = DeadLetterSubject.objects.filter(dead_letter__in=ids, position__lt=limit).order_by("dead_letter", "position")
    for letter, kind, identity in rows.values_list("dead_letter_id", "type", "id"):
        about.setdefault(letter, []).append((kind, identity))
    return about


# The exact bytes where they are kept, else the JSON as the database writes it.
_SIZE = """
    SELECT row_version, envelope_raw IS NOT NULL,
           octet_length(coalesce(
               envelope_raw, convert_to(coalesce(envelope -> 'event_data', envelope)::text, 'UTF8')))
      FROM wh_dead_letters WHERE dead_letter_id = %s
"""
_PIECE = """
    SELECT substr(coalesce(
               envelope_raw, convert_to(coalesce(envelope -> 'event_data', envelope)::text, 'UTF8')), %s, %s)
      FROM wh_dead_letters WHERE dead_letter_id = %s AND row_version = %s
"""


@dataclass(frozen=True, kw_only=True)
class StoredPayload:
    """A payload as it is now; `is_exact`: the bytes that were sent, and not what the database writes for them."""

    dead_letter_id: UUID
    row_version: int
    is_exact: bool
    size: int

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes; raises StaleChange when the letter is changed before the last of them is read."""
        for start in range(0, self.size, PIECE_BYTES):
            with connection.cursor() as cursor:
                cursor.execute(_PIECE, [start + 1, PIECE_BYTES, self.dead_letter_id, self.row_version])
                row = cursor.fetchone()
            if row is None:
                raise StaleChange
            yield bytes(row[0])


def payload_of(dead_letter_id: UUID) -> StoredPayload:
    """Return what there is to read of one letter's payload; raises NoSuchLetter."""
    with connection.cursor() as cursor:
        cursor.execute(_SIZE, [dead_letter_id])
        row = cursor.fetchone()
    if row is None:
        raise NoSuchLetter(str(dead_letter_id))
    version, is_exact, size = row
    return StoredPayload(dead_letter_id=dead_letter_id, row_version=version, is_exact=is_exact, size=size)
