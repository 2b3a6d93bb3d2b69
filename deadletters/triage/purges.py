"""Purges: letters that are removed for good."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from deadletters.models import DeadLetter, OperatorAction
from deadletters.store import edits as store
from deadletters.store.audit import Actor
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadChange, StaleChange
from queues import wakeups
from queues.words.sources import SOURCES
from queues.words.text import storable

MAX_REASON = 500
MAX_PURGED = 1_000
"""Letters that one call removes."""

PURGED = "purged"
WHY_NOT = {
    "recovering": "its message is out; wait for what becomes of it",
    "kept": "a legal hold keeps it",
    "holds its stream": "a stream waits behind it; let the stream go on with it",
    "gone": "there is no such letter",
}
"""Why a letter was not purged, by what its SQL function says."""


@dataclass(frozen=True, kw_only=True)
class Purge:
    """How many letters are gone, and why others are not."""

    purged: int
    refused: Mapping[UUID, str] = field(default_factory=dict)


@transaction.atomic
def purge(
    *,
    user: Any,
    dead_letter_ids: Sequence[UUID],
    reason: str,
    let_streams_go: bool = False,
    row_version: int | None = None,
) -> Purge:
    """Remove letters for good, each with its deaths, subjects, payloads and notes; the audit stays.

    let_streams_go: streams that wait behind them run on. row_version: the one of a single letter that the person saw.
    Raises PermissionDenied, BadChange without a reason or for more than MAX_PURGED, StaleChange.
    """
    by = actor(user, access.PURGE)
    said = _reason(reason)
    ids = _bounded(dead_letter_ids)
    seen = _lock(ids)
    if row_version is not None and any(letter.row_version != row_version for letter in seen.values()):
        raise StaleChange
    outcomes = store.purge(ids, let_go=let_streams_go)
    purged = [seen[each] for each in ids if outcomes.get(each) == PURGED]
    _record(purged, by, said)
    if let_streams_go:
        for source in {letter.source_table for letter in purged} & set(SOURCES):
            wakeups.wake(source)
    refused = {each: WHY_NOT[outcomes.get(each, "gone")] for each in ids if outcomes.get(each) != PURGED}
    return Purge(purged=len(purged), refused=refused)


def _reason(reason: str) -> str:
    said = storable(reason.replace("\r\n", "\n").strip())[:MAX_REASON]
    if not said:
        raise BadChange("reason", "must say why, since nothing else will be left")
    return said


def _bounded(dead_letter_ids: Sequence[UUID]) -> Sequence[UUID]:
    ids = list(dict.fromkeys(dead_letter_ids))
    if len(ids) > MAX_PURGED:
        raise BadChange("letters", f"are {len(ids):,}; at most {MAX_PURGED:,} are purged at once")
    return ids


_COLUMNS = ("source_table", "source_id", "message_type", "deaths", "dead_lettered_at", "recovery_status", "row_version")


def _lock(ids: Sequence[UUID]) -> dict[UUID, DeadLetter]:
    found = DeadLetter.objects.filter(pk__in=ids).order_by("dead_letter_id").only(*_COLUMNS)
    return {letter.dead_letter_id: letter for letter in found.select_for_update()}


def _record(purged: Sequence[DeadLetter], by: Actor, reason: str) -> None:
    OperatorAction.objects.bulk_create(
        OperatorAction(
            actor=by.name,
            actor_id=by.id,
            action="purge",
            dead_letter_id=letter.dead_letter_id,
            before=_describe(letter),
            reason=reason,
        )
        for letter in purged
    )


def _describe(letter: DeadLetter) -> dict[str, Any]:
    """Return what the audit keeps of a letter: nothing of its content."""
    return {
        "source": letter.source_table,
        "message_id": str(letter.source_id),
        "type": letter.message_type[:500],
        "deaths": letter.deaths,
        "died_at": letter.dead_lettered_at.isoformat(),
        "recovery_status": letter.recovery_status,
    }
