"""Everything that is known about one subject: a page of its letters, what happened to them, their streams.

Few statements, each bounded, whatever the subject.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from deadletters.models import DeadLetter, DeadLetterSubject, OperatorAction
from deadletters.queries.actions import describe
from deadletters.queries.letterrows import LIST_FIELDS, Row
from deadletters.queries.letters import place_of
from deadletters.queries.timeline import Event, Timeline
from deadletters.words.filters import Cursor
from queues.models import Source, Stream
from queues.store.live import rows_behind
from queues.words.sources import Queue

LETTERS = 50
"""Letters of a page."""
MANY = 2_000
"""Letters about one subject above which the newest letters of all are asked first whether they are about it."""
WALKED = 20_000
"""How many of them."""
EVENTS = 100
"""Events of each kind that are read, the newest ones of the letters of a page."""
MAX_STREAMS = 20
MAX_BEHIND = 100
"""How many messages behind the letters of a stream are counted."""


@dataclass(frozen=True, kw_only=True)
class OfSubject:
    """A page of the letters about a subject, the newest first."""

    rows: Sequence[Row]
    next: Cursor | None


@dataclass(frozen=True, kw_only=True)
class SubjectStream:
    """A stream of a subject's letters in one queue.

    `behind`: messages that wait in it, at most MAX_BEHIND + 1; `held_by`: the letter that they wait for, if they do.
    """

    queue: Queue
    stream_id: UUID
    letters: int
    behind: int
    held_by: UUID | None

    @property
    def is_capped(self) -> bool:
        return self.behind > MAX_BEHIND


def count(kind: str, identity: str) -> Mapping[int, int]:
    """Return how many letters are about a subject, exactly, by recovery status; what is 0 is missing."""
    found = _rows(
        "SELECT recovery_status, sum(n)::bigint"
        "  FROM (SELECT subject_key, recovery_status, n FROM subject_counts"
        "        UNION ALL SELECT subject_key, recovery_status, n FROM subject_deltas) c"
        " WHERE subject_key = dead_letter_subject_key(%(type)s, %(id)s) GROUP BY 1 HAVING sum(n) <> 0",
        {"type": kind, "id": identity},
    )
    return dict(found)


_SHAPE = """
SELECT n.*,
       (SELECT jsonb_build_array(s.type, s.id)::text FROM dead_letter_subjects s
         WHERE s.dead_letter_id = n.dead_letter_id ORDER BY s.position LIMIT 1) AS about,
       (SELECT count(*) FROM dead_letter_subjects s WHERE s.dead_letter_id = n.dead_letter_id) AS about_n
  FROM ({letters} LIMIT %(limit)s) n
 ORDER BY n.dead_lettered_at DESC, n.dead_letter_id DESC
"""
_IS_ABOUT = "s.subject_key = dead_letter_subject_key(%(type)s, %(id)s) AND s.type = %(type)s AND s.id = %(id)s"
_IS_CURRENT = """b.superseded_by IS NULL
           AND (%(at)s::timestamptz IS NULL OR (b.dead_lettered_at, b.dead_letter_id) < (%(at)s, %(letter)s))"""
_NEWEST_FIRST = "ORDER BY b.dead_lettered_at DESC, b.dead_letter_id DESC"
_COLUMNS = ", ".join(f"b.{column}" for column in (*LIST_FIELDS, "stream_id"))

_FOUND = f"""SELECT {_COLUMNS} FROM wh_dead_letters b
         WHERE {_IS_CURRENT}
           AND b.dead_letter_id = ANY (ARRAY(SELECT s.dead_letter_id FROM dead_letter_subjects s WHERE {_IS_ABOUT}))
         {_NEWEST_FIRST}"""  # noqa: S608 - our own words
"""The letters about a subject by its key; all of them are put in order."""

_WALKED = f"""SELECT {_COLUMNS}
          FROM (SELECT {_COLUMNS} FROM wh_dead_letters b WHERE {_IS_CURRENT} {_NEWEST_FIRST} LIMIT %(walked)s) b
         CROSS JOIN LATERAL (
               SELECT FROM dead_letter_subjects s WHERE s.dead_letter_id = b.dead_letter_id AND {_IS_ABOUT} LIMIT 1) s
         {_NEWEST_FIRST}"""  # noqa: S608 - our own words
"""The newest letters of all, one after the other, as far as they are about a subject: for one that many are about."""


def page(kind: str, identity: str, after: Cursor | None, *, known: int = 0) -> OfSubject:
    """Return the letters about a subject that died before a place in their list.

    known: how many letters are about it, as far as that is known; where they are many they are not all put in order.
    """
    place = {"at": after.at if after else None, "letter": after.id if after else None}
    wanted = {"type": kind, "id": identity, "limit": LETTERS + 1, "walked": WALKED, **place}
    found: Sequence[Any] = _read(_WALKED, wanted) if known > MANY else ()
    if len(found) <= LETTERS:
        found = _read(_FOUND, wanted)
    rows = [_row(letter) for letter in found[:LETTERS]]
    return OfSubject(rows=rows, next=place_of(rows[-1]) if len(found) > LETTERS else None)


def _read(letters: str, wanted: Mapping[str, Any]) -> Sequence[Any]:
    return list(DeadLetter.objects.raw(_SHAPE.format(letters=letters), wanted))


def streams(rows: Sequence[Row]) -> Sequence[SubjectStream]:
    """Return the streams of letters, those of most letters first, with what waits in them."""
    counted = Counter((_queue_of(row.letter), row.letter.stream_id) for row in rows if row.letter.stream_id)
    most = counted.most_common(MAX_STREAMS)
    pairs = [(queue.name, stream_id) for (queue, stream_id), _ in most]
    behind = rows_behind(pairs, MAX_BEHIND + 1)
    held = _held(pairs)
    return [
        SubjectStream(
            queue=queue,
            stream_id=stream_id,
            letters=n,
            behind=behind.get((queue.name, stream_id), 0),
            held_by=held.get((queue.name, stream_id)),
        )
        for (queue, stream_id), n in most
    ]


def _queue_of(letter: DeadLetter) -> Queue:
    is_perspective = letter.source_table == Source.PERSPECTIVE
    return Queue(source=letter.source_table, perspective=letter.perspective_name if is_perspective else None)


def _held(pairs: Sequence[tuple[str, UUID]]) -> Mapping[tuple[str, UUID], UUID]:
    held = Stream.objects.filter(
        queue__in=sorted({queue for queue, _ in pairs}),
        stream_id__in=[stream_id for _, stream_id in pairs],
        held_by__isnull=False,
    )
    known: Sequence[Any] = list(held.values_list("queue", "stream_id", "held_by")) if pairs else []
    return {(queue, stream_id): letter_id for queue, stream_id, letter_id in known}


def _row(letter: Any) -> Row:
    kind, identity = json.loads(letter.about)
    return Row(
        letter=letter,
        subject=DeadLetterSubject(type=kind, id=identity),
        more_subjects=max(letter.about_n - 1, 0),
    )


_TIMELINE = """
(SELECT 'death', d.dead_letter_id, d.dead_lettered_at, '', left(d.error_text, 400), d.number::text, NULL, NULL
   FROM dead_letter_deaths d WHERE d.dead_letter_id = ANY (%(letters)s)
  ORDER BY d.dead_lettered_at DESC, d.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'sent', d.dead_letter_id, d.recovery_sent_at, coalesce(d.recovery_actor, ''), '', '', NULL, NULL
   FROM dead_letter_deaths d WHERE d.dead_letter_id = ANY (%(letters)s) AND d.recovery_sent_at IS NOT NULL
  ORDER BY d.recovery_sent_at DESC, d.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'recovered', d.dead_letter_id, d.verdict_at, '', '', '', NULL, NULL
   FROM dead_letter_deaths d WHERE d.dead_letter_id = ANY (%(letters)s) AND d.verdict = 'recovered'
  ORDER BY d.verdict_at DESC, d.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'note', n.dead_letter_id, n.written_at, n.author, n.text, '', NULL, NULL
   FROM notes n WHERE n.dead_letter_id = ANY (%(letters)s)
  ORDER BY n.written_at DESC, n.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'action', a.dead_letter_id, a.at, a.actor, a.reason, a.action, a.before::text, a.after::text
   FROM operator_actions a
  WHERE a.dead_letter_id = ANY (%(letters)s) AND a.action NOT IN ('note', 'recover')
  ORDER BY a.at DESC, a.id DESC LIMIT %(limit)s)
"""


def timeline(rows: Sequence[Row]) -> Timeline:
    """Return deaths, recoveries, notes and decisions of letters, the newest first, each with its letter."""
    types = {row.letter.pk: row.letter.message_type for row in rows}
    found = _rows(_TIMELINE, {"letters": list(types), "limit": EVENTS + 1})
    events = [_event(types, *fields) for fields in found]
    events.sort(key=lambda event: (event.at, event.kind), reverse=True)
    most = max(Counter(kind for kind, *_ in found).values(), default=0)
    return Timeline(events=events[:EVENTS], is_cut=most > EVENTS or len(events) > EVENTS)


def _event(
    types: Mapping[UUID, str],
    kind: str,
    letter: UUID,
    at: datetime,
    by: str,
    text: str | None,
    what: str,
    before: str | None,
    after: str | None,
) -> Event:
    return Event(at=at, kind=kind, title=_title(types[letter], kind, what, before, after), by=by, letter=letter,
                 text=(text or "").partition("\n")[0] if kind == "death" else text or "")  # fmt: skip


def _title(message_type: str, kind: str, what: str, before: str | None, after: str | None) -> str:
    if kind == "action":
        changed = OperatorAction(action=what, before=_json(before), after=_json(after))
        return f"{message_type}: {describe(changed)}"
    if kind == "death":
        return message_type if what == "1" else f"{message_type} (death {what})"
    return f"{message_type}: {_TITLES[kind]}"


_TITLES = {"sent": "recovery sent", "recovered": "recovered, the handler has handled it", "note": "note"}


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _rows(sql: str, parameters: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
