"""The export of the audit as JSON Lines or CSV: masked, bounded, and an operator action itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from deadletters.exports import Form, ListExport, csv_cell, csv_rows, ending
from deadletters.queries import audit as reads
from deadletters.queries.actions import describe
from deadletters.queries.audit import Row
from deadletters.store import audit
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import ActionFilter
from deadletters.words.jsontexts import masked_json, written
from queues.words.redaction import mask_text

MAX_ACTIONS = 100_000
"""Actions of one export."""


def export_actions(*, filters: ActionFilter, form: Form, user: Any, now: datetime) -> ListExport:
    """Export the actions that the filter names up to `now`, the newest first, at most MAX_ACTIONS.

    Raises PermissionDenied, BadFilter.
    """
    by = actor(user, access.VIEW)
    if filters.after is not None:
        raise BadFilter("An export begins with the newest action; leave “after” out.")
    until = filters.times(now)[1]
    frozen = filters if until is not None and until <= now else replace(filters, until=now.isoformat())
    matching, words = reads.count(frozen, MAX_ACTIONS, now=now), mask_text(filters.words())
    audit.record(actor=by, action="export", after={"form": str(form), "filter": words, "actions": matching})
    cut_to = reads.SEARCHED if reads.is_cut_short(frozen, now) else None
    export = ListExport(words=words, began_at=now, matching=matching, cut_to=cut_to, lines=iter(()))
    return replace(export, lines=_WRITERS[form](export, reads.chunks(frozen, MAX_ACTIONS, now=now)))


def _json_lines(export: ListExport, chunks: Iterator[Sequence[Row]]) -> Iterator[str]:
    head = {"filter": export.words, "began_at": export.began_at.isoformat(), "actions": export.matching}
    yield written({"export": head}) + "\n"
    count = 0
    for chunk in chunks:
        yield "".join(written(_columns(row)) + "\n" for row in chunk)
        count += len(chunk)
    yield written({"end": {"actions": count, "said": _ending(export, count)}}) + "\n"


def _csv(export: ListExport, chunks: Iterator[Sequence[Row]]) -> Iterator[str]:
    count = 0
    for chunk in chunks:
        rows = [_columns(row) for row in chunk]
        heading = [] if count else [list(rows[0])]
        texts = ([csv_cell(getattr(value, "text", value)) for value in row.values()] for row in rows)
        yield csv_rows([*heading, *texts])
        count += len(chunk)
    yield csv_rows([[csv_cell(f"# {_ending(export, count)}")]])


_WRITERS: Mapping[Form, Callable[[ListExport, Iterator[Sequence[Row]]], Iterator[str]]] = {
    Form.JSON_LINES: _json_lines,
    Form.CSV: _csv,
}


def _ending(export: ListExport, count: int) -> str:
    return ending(export, count, noun="actions", most=MAX_ACTIONS)


def _columns(row: Row) -> dict[str, Any]:
    action = row.action
    return {
        "id": action.pk,
        "at": action.at.astimezone(UTC).isoformat(),
        "actor": action.actor,
        "actor_id": action.actor_id,
        "action": action.action,
        "said": mask_text(describe(action)),
        "letter": _id(action.dead_letter_id),
        "group": _id(action.group_id),
        "run": _id(action.run_id),
        "message": _id(action.message_id),
        "before": _values(row.before),
        "after": _values(row.after),
        "reason": mask_text(action.reason),
    }


def _id(value: object) -> str | None:
    return None if value is None else str(value)


def _values(text: str | None) -> Any:
    return None if text is None else masked_json(text, max_characters=reads.MAX_VALUES)
