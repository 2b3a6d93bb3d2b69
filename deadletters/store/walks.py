"""Letters by the part, the newest first: however many there are, a statement reads a bounded number of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

Place = tuple[datetime, UUID]
"""When a letter died, and its id."""

WIDTH = 10
"""Letters that a part reads for each that it may return: most are of something else."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Letters to look at, the newest first, and how far the walk is with them; None: there is nothing more."""

    ids: Sequence[UUID]
    last: Place | None


_PART = """
    WITH part AS MATERIALIZED ({part}), chosen AS (
        SELECT * FROM part p WHERE p.is_one ORDER BY p.dead_lettered_at DESC, p.dead_letter_id DESC LIMIT %s
    ), reached AS (
        SELECT r.dead_lettered_at, r.dead_letter_id FROM (
            SELECT * FROM chosen WHERE (SELECT count(*) FROM chosen) = %s
            UNION ALL
            SELECT * FROM part WHERE (SELECT count(*) FROM chosen) < %s) r
         ORDER BY r.dead_lettered_at, r.dead_letter_id LIMIT 1)
    SELECT (SELECT coalesce(array_agg(c.dead_letter_id), '{{}}') FROM chosen c), r.dead_lettered_at, r.dead_letter_id
      FROM reached r"""

_OF_CAUSE = """
    SELECT l.dead_letter_id, l.dead_lettered_at, coalesce(nullif(l.cause, ''), %s) = %s AS is_one
      FROM wh_dead_letters l
     WHERE l.recovery_status = 0 AND l.superseded_by IS NULL AND {behind}
     {newest}"""
_OF_REASON = _OF_CAUSE.replace("WHERE", "WHERE l.failure_reason = %s AND")
_OF_GROUP = """
    SELECT l.* FROM group_fingerprints f
     CROSS JOIN LATERAL (
           SELECT l.dead_letter_id, l.dead_lettered_at, l.recovery_status IN (0, 1, 2) AS is_one
             FROM wh_dead_letters l
            WHERE l.error_fingerprint = f.fingerprint AND l.error_fingerprint_version = f.version
              AND l.superseded_by IS NULL AND {behind}
            {newest}) l
     WHERE f.group_id = %s
     {newest}"""
_NAMES = {
    "behind": "(l.dead_lettered_at, l.dead_letter_id)"
    " < (coalesce(%s, 'infinity'::timestamptz), coalesce(%s, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))",
    "newest": "ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT %s",
}


def open_of(cause: str, reason: int | None, *, after: Place | None, limit: int) -> Part:
    """Return the next open letters of a cause, with one reason or any; those without a cause are among them."""
    only = [] if reason is None else [reason]
    part = _OF_CAUSE if reason is None else _OF_REASON
    return _part(part, [cause, cause, *only, *(after or (None, None)), limit * WIDTH], limit)


def not_ended_of(group_id: UUID, *, after: Place | None, limit: int) -> Part:
    """Return the next letters of a group that are neither recovered nor given up."""
    read = limit * WIDTH
    return _part(_OF_GROUP, [*(after or (None, None)), read, group_id, read], limit)


def held_after_their_group(group_id: UUID, limit: int) -> Sequence[UUID]:
    """Return letters that are held because of a group which is not held any more."""
    return _ids(
        "SELECT l.dead_letter_id FROM wh_dead_letters l"
        " WHERE l.held_by_group = %s AND l.superseded_by IS NULL"
        "   AND NOT EXISTS (SELECT FROM failure_groups g WHERE g.group_id = %s AND g.operator_disposition = 2)"
        " ORDER BY l.dead_letter_id LIMIT %s",
        [group_id, group_id, limit],
    )


def new_in_held_groups(*, within: timedelta, groups: int, limit: int) -> Sequence[UUID]:
    """Return letters that died lately in groups that are held, and are not held themselves."""
    return _ids(
        "SELECT l.dead_letter_id"
        "  FROM (SELECT g.group_id, g.held_at FROM failure_groups g"
        "         WHERE g.operator_disposition = 2 AND g.last_seen_at > clock_timestamp() - %s"
        "         ORDER BY g.last_seen_at DESC LIMIT %s) g"
        "  JOIN group_fingerprints f ON f.group_id = g.group_id"
        " CROSS JOIN LATERAL ("
        "       SELECT l.dead_letter_id FROM wh_dead_letters l"
        "        WHERE l.error_fingerprint = f.fingerprint AND l.error_fingerprint_version = f.version"
        "          AND l.superseded_by IS NULL AND l.dead_lettered_at > clock_timestamp() - %s"
        "          AND l.operator_disposition = 0 AND l.recovery_status IN (0, 1, 2)"
        "          AND coalesce(l.decided_at < greatest(g.held_at, l.dead_lettered_at), true)"
        "        ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT %s) l"
        " LIMIT %s",
        [within, groups, within, limit, limit],
    )


def _part(part: str, parameters: Sequence[Any], limit: int) -> Part:
    rows = _rows(_PART.format(part=part.format(**_NAMES)), [*parameters, limit, limit, limit])
    if not rows:
        return Part(ids=(), last=None)
    ((ids, died_at, letter_id),) = rows
    return Part(ids=ids, last=(died_at, letter_id))


def _ids(sql: str, parameters: Sequence[Any]) -> Sequence[UUID]:
    return [letter_id for (letter_id,) in _rows(sql, parameters)]


def _rows(sql: str, parameters: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
