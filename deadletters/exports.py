"""Exports: one letter, its payload's bytes, and the list as JSON Lines or CSV.

Each call checks the permission and writes one operator action before anything is handed out. All text is masked on
every path but the payload's exact bytes, which need the permission to reveal.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction

from deadletters.models import DeadLetter, DeadLetterDeath, Disposition, RecoveryStatus
from deadletters.queries import exports as reads
from deadletters.queries import letters
from deadletters.queries.exports import Exported, StoredPayload
from deadletters.store import audit
from deadletters.triage.actors import actor
from deadletters.triage.reveals import why
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import DISPOSITIONS, SOURCES, STATUSES, LetterFilter, reason_name
from deadletters.words.jsontexts import masked_json, written
from queues.words.redaction import mask_text
from queues.words.text import visible

MAX_LETTERS = 100_000
"""Letters of one export of the list."""

MAX_LISTED_PAYLOAD = 64 * 1024
"""Characters of a payload in an export of the list."""

MAX_PAYLOAD = 2 * 1024 * 1024
"""Characters of a payload in the export of one letter."""

MAX_SUBJECTS = 10
"""Subjects of each letter in an export of the list."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_STATUS_NAMES = {number: name for name, number in STATUSES.items()}
_DISPOSITION_NAMES = {number: name for name, number in DISPOSITIONS.items()}
_SOURCE_NAMES = {table: name for name, table in SOURCES.items()}


class Form(StrEnum):
    """How a list is written."""

    JSON_LINES = "jsonl"
    CSV = "csv"


@dataclass(frozen=True, kw_only=True)
class ListExport:
    """A list that is being exported: what it covers, and its lines, which are read as they are asked for.

    `cut_to`: only so many of the newest were looked through, of more.
    """

    words: str
    began_at: datetime
    matching: int
    cut_to: int | None
    lines: Iterator[str]


def export_letters(*, filters: LetterFilter, form: Form, user: Any, now: datetime) -> ListExport:
    """Export the letters that the filter names and that died before `now`, the newest first, at most MAX_LETTERS.

    A letter that dies again while the export runs is newer than it, and may be missing. Raises PermissionDenied,
    BadFilter.
    """
    by = actor(user, access.VIEW)
    if filters.after is not None:
        raise BadFilter("An export begins with the newest letter; leave “after” out.")
    until = filters.times(now)[1]
    frozen = filters if until is not None and until <= now else replace(filters, until=now.isoformat())
    matching = letters.count(frozen, MAX_LETTERS, now=now)
    cut_to = letters.searched(frozen) if letters.is_cut_short(frozen, now) else None
    words = mask_text(filters.words())
    audit.record(actor=by, action="export", after={"form": str(form), "filter": words, "letters": matching})
    limit = MAX_LISTED_PAYLOAD if form is Form.JSON_LINES else None
    chunks = reads.chunks(frozen, MAX_LETTERS, now=now, subjects=MAX_SUBJECTS, payload_limit=limit)
    export = ListExport(words=words, began_at=now, matching=matching, cut_to=cut_to, lines=iter(()))
    return replace(export, lines=_WRITERS[form](export, chunks))


def list_letters(*, filters: LetterFilter, user: Any, limit: int, now: datetime) -> Iterator[Mapping[str, Any]]:
    """Return the newest letters that the filter names, each as the columns of an export; as a page, it is not audited.

    Raises PermissionDenied.
    """
    actor(user, access.VIEW)
    chunks = reads.chunks(filters, limit, now=now, subjects=MAX_SUBJECTS, payload_limit=None)
    return (_columns(one) for chunk in chunks for one in chunk)


def show_letter(*, dead_letter_id: UUID, user: Any) -> Mapping[str, Any]:
    """Return what the export of one letter holds; as its page, it is not audited.

    Raises PermissionDenied, NoSuchLetter.
    """
    actor(user, access.VIEW)
    return _whole(letters.get(dead_letter_id))


def export_letter(*, dead_letter_id: UUID, user: Any) -> str:
    """Return one letter with all that belongs to it as JSON, masked. Raises PermissionDenied, NoSuchLetter."""
    by = actor(user, access.VIEW)
    letter = letters.get(dead_letter_id)
    audit.record(actor=by, action="export", dead_letter_id=letter.dead_letter_id, after={"form": "json"})
    return written(_whole(letter)) + "\n"


@transaction.atomic
def export_payload(*, dead_letter_id: UUID, user: Any, reason: str) -> StoredPayload:
    """Return a payload's bytes, unmasked. Raises PermissionDenied, NoSuchLetter, BadChange without a reason."""
    by = actor(user, access.REVEAL)
    said = why(reason)
    stored = reads.payload_of(dead_letter_id)
    size = {"bytes": stored.size}
    audit.record(actor=by, action="download_payload", dead_letter_id=dead_letter_id, after=size, reason=said)
    return stored


# --- the list


def _json_lines(export: ListExport, chunks: Iterator[Sequence[Exported]]) -> Iterator[str]:
    head = {"filter": export.words, "began_at": _time(export.began_at), "letters": export.matching}
    yield written({"export": head}) + "\n"
    count = 0
    for chunk in chunks:
        yield "".join(written(_columns(one) | _payload(one)) + "\n" for one in chunk)
        count += len(chunk)
    yield written({"end": {"letters": count, "said": _ending(export, count)}}) + "\n"


def _csv(export: ListExport, chunks: Iterator[Sequence[Exported]]) -> Iterator[str]:
    names: Sequence[str] = ()
    count = 0
    for chunk in chunks:
        rows = [_columns(one) for one in chunk]
        heading = [] if names else [list(rows[0])]
        names = names or list(rows[0])
        yield csv_rows([*heading, *([csv_cell(row[name]) for name in names] for row in rows)])
        count += len(chunk)
    yield csv_rows([[csv_cell(f"# {_ending(export, count)}")]])


_WRITERS: Mapping[Form, Callable[[ListExport, Iterator[Sequence[Exported]]], Iterator[str]]] = {
    Form.JSON_LINES: _json_lines,
    Form.CSV: _csv,
}


def ending(export: ListExport, count: int, *, noun: str, most: int) -> str:
    """Say what the export covers, which holds at most so many; a file without this as its last line broke off."""
    at = f"as of {export.began_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    said = f"{export.words}: {count:,} {noun} {at}."
    if export.matching > most:
        said += f" Cut: an export holds the newest {most:,} and there are more; narrow the filter."
    if export.cut_to is not None:
        said += f" Only the newest {export.cut_to:,} were looked through."
    return said


def _ending(export: ListExport, count: int) -> str:
    return ending(export, count, noun="letters", most=MAX_LETTERS)


def _columns(one: Exported) -> dict[str, Any]:
    """Return the fixed columns of a letter in a list."""
    facts = one.facts
    return {
        "dead_letter_id": str(facts["dead_letter_id"]),
        "message_id": str(facts["source_id"]),
        "source": _SOURCE_NAMES.get(facts["source_table"], facts["source_table"]),
        "type": facts["message_type"],
        "stream_id": _text(facts["stream_id"]),
        "destination": _masked(facts["destination"]),
        "perspective": facts["perspective_name"],
        "status": _STATUS_NAMES[facts["recovery_status"]],
        "disposition": _DISPOSITION_NAMES[facts["operator_disposition"]],
        "owner": facts["owner"],
        "reason": reason_name(facts["failure_reason"]),
        "cause": facts["cause"],
        "error": _masked(facts["error_line"]),
        "attempts": facts["attempts_when_dlq"],
        "delays": facts["delays_when_dlq"],
        "deaths": facts["deaths"],
        "recoveries": facts["recoveries_total"],
        "died_at": _time(facts["dead_lettered_at"]),
        "first_died_at": _time(facts["first_dead_lettered_at"]),
        "recovered_at": _time(facts["recovered_at"]),
        "build": facts["generation"],
        "fingerprint": facts["error_fingerprint"],
        "subjects": [mask_text(f"{kind}:{identity}") for kind, identity in one.subjects],
        "more_subjects": one.more_subjects,
        "payload_bytes": facts["envelope_bytes"],
        "has_exact_bytes": one.has_exact_bytes,
    }


def _payload(one: Exported) -> dict[str, Any]:
    if one.payload is None:
        return {"payload": None, "payload_left_out": "it is large; the letter's own export shows it"}
    return {"payload": masked_json(one.payload, max_characters=MAX_LISTED_PAYLOAD)}


def csv_cell(value: Any) -> Any:
    """Return what a spreadsheet shows as it is: a text that it would take for a formula begins with an apostrophe."""
    if isinstance(value, list):
        value = "\n".join(value)
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_rows(rows: Sequence[Sequence[Any]]) -> str:
    """Write rows of cells as lines of CSV."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


# --- one letter


def _whole(letter: DeadLetter) -> dict[str, Any]:
    return {**_identity(letter), **_failure(letter), **_history(letter), **_content(letter)}


def _identity(letter: DeadLetter) -> dict[str, Any]:
    return {
        "dead_letter_id": str(letter.dead_letter_id),
        "message_id": str(letter.source_id),
        "original_message_id": _text(letter.original_id),
        "source": _SOURCE_NAMES.get(letter.source_table, letter.source_table),
        "type": letter.message_type,
        "stream_id": _text(letter.stream_id),
        "destination": _masked(letter.destination),
        "perspective": letter.perspective_name,
        "status": _STATUS_NAMES[RecoveryStatus(letter.recovery_status)],
        "disposition": _DISPOSITION_NAMES[Disposition(letter.operator_disposition)],
        "owner": letter.owner,
    }


def _failure(letter: DeadLetter) -> dict[str, Any]:
    detail = letters.failure_detail_of(letter)
    return {
        "reason": reason_name(letter.failure_reason),
        "cause": letter.cause,
        "error": _masked(letter.error_text),
        "detail": None if detail is None else masked_json(detail, max_characters=MAX_PAYLOAD),
        "subjects": [{"type": subject.type, "id": mask_text(subject.id)} for subject in letters.subjects_of(letter)],
        "build": letter.generation,
        "fingerprint": letter.error_fingerprint,
        "fingerprint_version": letter.error_fingerprint_version,
    }


def _history(letter: DeadLetter) -> dict[str, Any]:
    return {
        "attempts": letter.attempts_when_dlq,
        "delays": letter.delays_when_dlq,
        "recoveries": letter.recoveries_total,
        "first_died_at": _time(letter.first_dead_lettered_at),
        "died_at": _time(letter.dead_lettered_at),
        "recovered_at": _time(letter.recovered_at),
        "deaths": [_death(death) for death in letters.deaths_of(letter)],
        "notes": [
            {"at": _time(note.written_at), "by": note.author, "text": mask_text(note.text)}
            for note in letters.notes_of(letter)
        ],
    }


def _content(letter: DeadLetter) -> dict[str, Any]:
    return {
        "metadata": masked_json(letter.metadata, max_characters=MAX_PAYLOAD),
        "payload_version": letter.edited_version or 1,
        "payload_bytes": letter.envelope_bytes,
        "payload": masked_json(letter.envelope, "event_data", max_characters=MAX_PAYLOAD),
    }


def _death(death: DeadLetterDeath) -> dict[str, Any]:
    return {
        "number": death.number,
        "at": _time(death.dead_lettered_at),
        "build": death.generation,
        "cause": death.cause,
        "reason": reason_name(death.failure_reason),
        "error": _masked(death.error_text),
        "last_reported_error": _masked(death.last_reported_error),
        "attempts": death.attempts,
        "delays": death.delays,
        "recovery_sent_at": _time(death.recovery_sent_at),
        "recovery_by": death.recovery_actor,
        "verdict": death.verdict,
        "verdict_at": _time(death.verdict_at),
    }


def _masked(text: str | None) -> str | None:
    return None if text is None else mask_text(text)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
