"""`edit` and `purge`: what changes or removes a letter itself."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.utils import timezone

from deadletters import triage
from deadletters.management.verbs.calls import (
    FINE,
    NOT_ALL,
    Call,
    add_filters,
    add_id,
    add_reason,
    add_yes,
    read_text,
    scope_of,
    verb,
)
from deadletters.queries import letters
from deadletters.triage import edits
from deadletters.triage.purges import MAX_PURGED
from deadletters.words.filters import LetterFilter

COUNTED = 1_000_000
"""Letters up to which it is counted how many a purge is about."""


def add(verbs: Any) -> None:
    edit = verb(verbs, "edit", run_edit, "edit a payload: the original is kept, masks left in place keep their values")
    add_id(edit)
    add_reason(edit)
    how = edit.add_mutually_exclusive_group(required=True)
    how.add_argument("--show", action="store_true", help="write the payload as it is edited, masked")
    how.add_argument("--file", help="the new payload: a file, or - for standard input")
    how.add_argument("--restore", type=int, metavar="VERSION", help="put an earlier version back, byte for byte")
    edit.add_argument("--row-version", type=int, help="refuse when the letter has another one than --show has told")
    purge = verb(verbs, "purge", run_purge, "remove dead letters for good; the audit stays")
    purge.add_argument("ids", metavar="ID", nargs="*", type=UUID, help="dead letters")
    purge.add_argument("--all", action="store_true", help="all that match the filters")
    purge.add_argument("--everything", action="store_true", help="all of them, without a filter")
    purge.add_argument("--let-streams-go", action="store_true", help="streams that wait behind them run on")
    add_reason(purge, required=True)
    add_yes(purge)
    add_filters(purge)


def run_edit(call: Call) -> int:
    asked = call.options
    draft = edits.draft(dead_letter_id=asked.id, user=call.user)
    if asked.show:
        call.answer({"row_version": draft.row_version, "is_json": draft.is_json, "payload": draft.text}, draft.text)
        return FINE
    version = put(call, asked.id, asked.row_version or draft.row_version)
    values = {"dead_letter_id": str(asked.id), "version": version}
    call.answer(values, f"The letter holds version {version} now. Its message is sent when it is recovered.")
    return FINE


def put(call: Call, dead_letter_id: UUID, row_version: int, file: str | None = None) -> int:
    """Edit or restore what the options ask for; return the version that the letter holds then."""
    given = {"user": call.user, "dead_letter_id": dead_letter_id, "row_version": row_version}
    if file is None and call.options.restore is not None:
        return triage.restore(**given, version=call.options.restore, reason=call.options.why)
    return triage.edit(**given, text=read_text(file or call.options.file), reason=call.options.why)


def run_purge(call: Call) -> int:
    """Purge in batches, each a transaction of its own; write what became of those that stay."""
    filters = scope_of(call)
    count = len(call.options.ids) if filters is None else letters.count(filters, COUNTED, now=timezone.now())
    said = f"{count:,} dead letter{'' if count == 1 else 's'}"
    call.confirm(f"{said} would be removed for good{'' if filters is None else f': {filters.words()}'}.")
    purged, refused = 0, 0
    for batch in _batches(call.options.ids, filters):
        done = triage.purge(
            user=call.user,
            dead_letter_ids=batch,
            reason=call.options.why,
            let_streams_go=call.options.let_streams_go,
        )
        purged, refused = purged + done.purged, refused + len(done.refused)
        for letter_id, why in done.refused.items():
            call.say(f"{letter_id}  {why}")
    call.answer({"purged": purged, "refused": refused}, f"{purged:,} purged, {refused:,} left as they are.")
    return NOT_ALL if refused else FINE


def _batches(ids: Sequence[UUID], filters: LetterFilter | None) -> Iterator[Sequence[UUID]]:
    if filters is None:
        for start in range(0, len(ids), MAX_PURGED):
            yield ids[start : start + MAX_PURGED]
        return
    now = timezone.now()
    until = filters.times(now)[1]
    place = filters if until is not None and until <= now else replace(filters, until=now.isoformat())
    while rows := letters.newest(place, MAX_PURGED, now=now):
        place = replace(place, after=letters.place_of(rows[-1]))
        yield [row.letter.dead_letter_id for row in rows]
