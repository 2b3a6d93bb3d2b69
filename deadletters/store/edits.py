"""Edits and purges of letters, each as one call of its SQL function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from deadletters.store.audit import Actor
from queues.words.payloads import Encoded


@dataclass(frozen=True, kw_only=True)
class Edited:
    """What became of an edit: the version that the letter holds now, or why it holds another."""

    version: int | None
    refused: str = ""


def edit(
    dead_letter_id: UUID, payload: Encoded | int, *, by: Actor, reason: str, row_version: int, limit: int
) -> Edited:
    """Put a payload, or an earlier version by its number, into a letter that has that row version.

    limit: most versions of a letter. Locks the letter for the caller's transaction. Source: `sql/edits_v1.sql`.
    """
    stored = (
        (None, None, None, payload) if isinstance(payload, int) else (payload.json, payload.raw, payload.size, None)
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outcome, version FROM edit_dead_letter(%s, %s, %s::jsonb, %s, %s, %s, %s, %s, %s)",
            [dead_letter_id, row_version, *stored, by.name, reason, limit],
        )
        outcome, version = cursor.fetchone()
    return Edited(version=version, refused=outcome)


def purge(dead_letter_ids: Sequence[UUID], *, let_go: bool) -> Mapping[UUID, str]:
    """Remove letters for good and return what became of each id; `let_go`: the streams behind them run on.

    Locks the letters for the caller's transaction. Source: `sql/purge_v1.sql`.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT dead_letter_id, outcome FROM purge_dead_letters(%s, %s)", [list(dead_letter_ids), let_go]
        )
        return dict(cursor.fetchall())
