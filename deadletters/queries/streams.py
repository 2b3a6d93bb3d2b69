"""Reads of a letter's stream: what stands before and behind it, what waits, what was applied after it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import DateTimeField

from deadletters.models import DeadLetter
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES

COUNT_CAP = 10_000
NEIGHBOURS = 3
"""How many of a stream are shown before a letter, and behind it."""

SEARCHED = 500
"""How many of a stream's letters, those that died last, are looked through for neighbours."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A message or event of the stream. `state`: dead, waiting or applied; `place`: its position, or its version.

    `letter`: the dead letter that it is; `message`: the live message that it is.
    """

    place: int
    state: str
    type: str
    at: datetime | None
    letter: UUID | None
    message: UUID | None
    recovery_status: int | None


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The stream around one letter. `waiting` is at most COUNT_CAP + 1; `applied_later`: handled though they follow it.

    place: the letter's own, None = it is not recorded, so that nothing is said about what stands where.
    """

    place: int | None
    before: Sequence[Neighbour]
    after: Sequence[Neighbour]
    waiting: int
    applied_later: int
    held_by: UUID | None


_POSITION = "CASE WHEN source_row->>'position' ~ '^-?[0-9]{1,18}$' THEN (source_row->>'position')::bigint END"
_EVENT = "CASE WHEN d.source_row->>'event_id' ~* '^[0-9a-f-]{36}$' THEN (d.source_row->>'event_id')::uuid END"
_DEAD = """
    SELECT dead_letter_id, message_type, recovery_status, dead_lettered_at, source_row
      FROM (SELECT dead_letter_id, message_type, recovery_status, dead_lettered_at, source_row, source_table,
                   perspective_name
              FROM wh_dead_letters
             WHERE stream_id = %(stream)s AND superseded_by IS NULL
             ORDER BY dead_lettered_at DESC LIMIT %(searched)s) l
     WHERE source_table = %(source)s AND perspective_name IS NOT DISTINCT FROM %(perspective)s
"""

# `row`: place, state, type, at, letter, message, recovery_status
_OF_MESSAGES = """
    WITH dead AS MATERIALIZED (
        SELECT {position} AS place, 'dead' AS state, message_type AS type, dead_lettered_at AS at,
               dead_letter_id AS letter, NULL::uuid AS message, recovery_status
          FROM ({dead}) d
    ), own AS (SELECT {position} AS place FROM wh_dead_letters WHERE dead_letter_id = %(letter)s),
    behind AS (
        SELECT position AS place, 'waiting' AS state, message_type AS type, scheduled_for AS at, NULL::uuid AS letter,
               message_id AS message, NULL::int AS recovery_status
          FROM {table}
         WHERE stream_id = %(stream)s AND processed_at IS NULL AND position > (SELECT place FROM own)
         ORDER BY position LIMIT %(shown)s
    ), ahead AS (
        SELECT position AS place, 'waiting' AS state, message_type AS type, scheduled_for AS at, NULL::uuid AS letter,
               message_id AS message, NULL::int AS recovery_status
          FROM {table}
         WHERE stream_id = %(stream)s AND processed_at IS NULL AND position < (SELECT place FROM own)
         ORDER BY position DESC LIMIT %(shown)s
    ), later AS (SELECT count(*) AS n FROM dead WHERE recovery_status = 3 AND place > (SELECT place FROM own)),
    waiting AS (
        SELECT count(*) AS n
          FROM (SELECT FROM {table}
                 WHERE stream_id = %(stream)s AND processed_at IS NULL AND position > (SELECT place FROM own)
                 LIMIT %(cap)s) w
    )
"""
_OF_EVENTS = """
    WITH own AS (
        SELECT e.version AS place, {position} AS position
          FROM wh_dead_letters d JOIN wh_event_store e ON e.event_id = {event}
         WHERE d.dead_letter_id = %(letter)s
    ), applied AS (
        SELECT max(version) AS version FROM wh_perspective_cursors
         WHERE stream_id = %(stream)s AND perspective_name = %(perspective)s
    ), dead AS MATERIALIZED (
        SELECT e.version AS place, 'dead' AS state, d.message_type AS type, d.dead_lettered_at AS at,
               d.dead_letter_id AS letter, NULL::uuid AS message, d.recovery_status
          FROM ({dead}) d JOIN wh_event_store e ON e.event_id = {event}
    ), near AS MATERIALIZED (
        SELECT e.version AS place, CASE WHEN w.event_work_id IS NULL THEN 'applied' ELSE 'waiting' END AS state,
               e.event_type AS type, e.created_at AS at, NULL::uuid AS letter, w.event_work_id AS message,
               NULL::int AS recovery_status
          FROM wh_event_store e
          LEFT JOIN wh_perspective_events w ON w.stream_id = e.stream_id AND w.event_id = e.event_id
               AND w.perspective_name = %(perspective)s AND w.processed_at IS NULL
         WHERE e.stream_id = %(stream)s
           AND e.version BETWEEN (SELECT place FROM own) - %(shown)s AND (SELECT place FROM own) + %(shown)s
           AND (w.event_work_id IS NOT NULL OR e.version <= (SELECT version FROM applied))
           AND e.version NOT IN (SELECT place FROM dead)
    ), behind AS (SELECT * FROM near WHERE place > (SELECT place FROM own)),
    ahead AS (SELECT * FROM near WHERE place < (SELECT place FROM own)),
    later AS (SELECT greatest((SELECT version FROM applied) - (SELECT place FROM own), 0) AS n),
    waiting AS (
        SELECT count(*) AS n
          FROM (SELECT FROM wh_perspective_events
                 WHERE perspective_name = %(perspective)s AND stream_id = %(stream)s AND processed_at IS NULL
                   AND position > (SELECT position FROM own) LIMIT %(cap)s) w
    )
"""
_READ = """
    SELECT json_build_object(
        'place', (SELECT place FROM own),
        'before', (SELECT json_agg(n ORDER BY n.place) FROM (
            SELECT * FROM (SELECT * FROM dead UNION ALL SELECT * FROM ahead) a
             WHERE place < (SELECT place FROM own) ORDER BY place DESC LIMIT %(shown)s) n),
        'after', (SELECT json_agg(n ORDER BY n.place) FROM (
            SELECT * FROM (SELECT * FROM dead UNION ALL SELECT * FROM behind) b
             WHERE place > (SELECT place FROM own) ORDER BY place LIMIT %(shown)s) n),
        'waiting', (SELECT n FROM waiting),
        'applied_later', coalesce((SELECT n FROM later), 0),
        'held_by', (SELECT held_by FROM wh_streams WHERE queue = %(queue)s AND stream_id = %(stream)s)
    )::text
"""


def around(letter: DeadLetter) -> Stream | None:
    """Return the stream of a letter; None for one without a stream, or from where there is none."""
    if letter.stream_id is None or letter.source_table not in (INBOX, OUTBOX, PERSPECTIVES):
        return None
    is_event = letter.source_table == PERSPECTIVES
    statement = (_OF_EVENTS if is_event else _OF_MESSAGES) + _READ
    statement = statement.format(dead=_DEAD, position=_POSITION, event=_EVENT, table=letter.source_table)
    with connection.cursor() as cursor:
        cursor.execute(statement, _parameters(letter))
        (text,) = cursor.fetchone()
    found = json.loads(text)
    return Stream(
        place=found["place"],
        before=[_neighbour(row) for row in found["before"] or ()],
        after=[_neighbour(row) for row in found["after"] or ()],
        waiting=found["waiting"],
        applied_later=found["applied_later"],
        held_by=UUID(found["held_by"]) if found["held_by"] else None,
    )


def _parameters(letter: DeadLetter) -> dict[str, Any]:
    return {
        "letter": letter.dead_letter_id,
        "stream": letter.stream_id,
        "source": letter.source_table,
        "perspective": letter.perspective_name,
        "queue": ":".join(filter(None, (letter.source_table, letter.perspective_name))),
        "shown": NEIGHBOURS,
        "searched": SEARCHED,
        "cap": COUNT_CAP + 1,
    }


def _neighbour(row: dict[str, Any]) -> Neighbour:
    at = DateTimeField().to_python(row["at"])
    letter, message = (UUID(row[name]) if row[name] else None for name in ("letter", "message"))
    shown = {name: row[name] for name in ("place", "state", "type", "recovery_status")}
    return Neighbour(**shown, at=at, letter=letter, message=message)
