"""Reads of payloads as they were sent and edited."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection
from django.db.models import TextField
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast, Coalesce

from deadletters.models import DeadLetter, DeadLetterPayload
from deadletters.words.errors import NoSuchLetter, NoSuchVersion

SHOWN = 50
"""Versions of a letter that a page lists, the newest ones."""

_CURRENT = """
SELECT row_version, envelope_raw, coalesce(envelope -> 'event_data', envelope)::text
  FROM wh_dead_letters WHERE dead_letter_id = %s
"""

_BEGINNING = """
SELECT substr(coalesce(envelope_raw, convert_to(coalesce(envelope -> 'event_data', envelope)::text, 'UTF8')), 1, %s)
  FROM wh_dead_letters WHERE dead_letter_id = %s
"""

_SIZE = """
SELECT coalesce(octet_length(envelope_raw), envelope_bytes, pg_column_size(envelope))
  FROM wh_dead_letters WHERE dead_letter_id = %s
"""
_VERSION_SIZE = """
SELECT coalesce(octet_length(envelope_raw), envelope_bytes, pg_column_size(envelope))
  FROM dead_letter_payloads WHERE dead_letter_id = %s AND version = %s
"""


@dataclass(frozen=True, kw_only=True)
class Current:
    """A letter's payload with the row version that has it; `text` is exact where it can be read as text at all."""

    row_version: int
    text: str


def current(dead_letter_id: UUID) -> Current:
    """Return what a letter holds; raises NoSuchLetter."""
    with connection.cursor() as cursor:
        cursor.execute(_CURRENT, [dead_letter_id])
        row = cursor.fetchone()
    if row is None:
        raise NoSuchLetter(str(dead_letter_id))
    row_version, raw, text = row
    return Current(row_version=row_version, text=_readable(raw, text))


def beginning_of(dead_letter_id: UUID, length: int) -> bytes:
    """Return the first bytes of what a letter holds; raises NoSuchLetter."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGINNING, [length, dead_letter_id])
        row = cursor.fetchone()
    if row is None:
        raise NoSuchLetter(str(dead_letter_id))
    return bytes(row[0])


def of_letter(letter: DeadLetter) -> Sequence[DeadLetterPayload]:
    """Return a letter's payload versions without their bodies, the newest first; none when it was never edited."""
    if letter.edited_version is None:
        return []
    versions = letter.payloads.defer("envelope", "envelope_raw").order_by("-version")
    return list(versions[:SHOWN])


def text_of(dead_letter_id: UUID, version: int) -> str:
    """Return the text of a version; raises NoSuchVersion."""
    body = Cast(Coalesce(KeyTransform("event_data", "envelope"), "envelope"), TextField())
    found = DeadLetterPayload.objects.filter(dead_letter=dead_letter_id, version=version)
    row = found.annotate(body=body).values_list("envelope_raw", "body").first()
    if row is None:
        raise NoSuchVersion(version)
    return _readable(*row)


def size_of(dead_letter_id: UUID, version: int | None = None) -> int:
    """Return about how many bytes a payload has, without reading it: the letter's, or that of a version; 0 = none."""
    with connection.cursor() as cursor:
        if version is None:
            cursor.execute(_SIZE, [dead_letter_id])
        else:
            cursor.execute(_VERSION_SIZE, [dead_letter_id, version])
        row = cursor.fetchone()
    return int(row[0] or 0) if row else 0


def _readable(raw: bytes | memoryview | None, text: str | None) -> str:
    return (text or "") if raw is None else bytes(raw).decode("utf-8", "replace")
