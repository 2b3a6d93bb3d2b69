"""What the page of one failure group reads beside its newest letters: few statements, each bounded."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from deadletters.models import DeadLetter, FailureGroup, Note, OperatorAction
from deadletters.queries.counts import Fingerprint
from deadletters.queries.groups import MAX_FINGERPRINTS, Counts, SourceCount
from deadletters.queries.timeline import LIMIT, Timeline, of_actions
from deadletters.queries.trends import MAX_MARKS, Span, chart
from deadletters.words.charts import Bars, Bucket, Mark

MAX_NOTES = 100
MAX_ERROR = 70_000
"""Characters of the sample's error text that are read: more than a page shows."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """A group's letters by source and status, its deaths by time, and how often it died on each build meanwhile."""

    counts: Counts
    trend: Bars


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The fingerprints of a group, and the letter that it was named after as long as it is kept."""

    fingerprints: Sequence[Fingerprint]
    letter: DeadLetter | None


@dataclass(frozen=True, kw_only=True)
class Records:
    """What people wrote about a group and did to it, the newest first."""

    notes: Sequence[Note]
    timeline: Timeline


_NUMBERS = """
WITH known AS MATERIALIZED (
    SELECT f.fingerprint, f.version FROM group_fingerprints f WHERE f.group_id = %(group)s
     ORDER BY f.version DESC, f.fingerprint LIMIT %(fingerprints)s
)
SELECT 'letters', t.source_table, t.recovery_status, NULL::timestamptz, sum(t.n)::bigint
  FROM (SELECT fingerprint, version, source_table, recovery_status, n FROM group_counts
         WHERE fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k))
        UNION ALL
        SELECT fingerprint, version, source_table, recovery_status, n FROM group_deltas
         WHERE fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k))) t
  JOIN known k ON k.fingerprint = t.fingerprint AND k.version = t.version
 GROUP BY 2, 3 HAVING sum(t.n) <> 0
UNION ALL
SELECT 'deaths', h.generation, NULL, h.hour, sum(h.deaths)::bigint
  FROM (SELECT fingerprint, version, hour, generation, deaths FROM group_hours
         WHERE fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k)) AND hour >= %(since)s
        UNION ALL
        SELECT fingerprint, version, hour, generation, deaths FROM group_deltas
         WHERE deaths > 0 AND fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k)) AND hour >= %(since)s) h
  JOIN known k ON k.fingerprint = h.fingerprint AND k.version = h.version
 GROUP BY 2, 4 HAVING sum(h.deaths) <> 0
UNION ALL
(SELECT 'build', g.build, NULL, g.first_seen_at, 1 FROM generations g
  WHERE g.first_seen_at >= %(since)s ORDER BY g.first_seen_at DESC LIMIT %(marks)s)
ORDER BY 4, 2
"""


def numbers(group: FailureGroup, span: Span, *, now: datetime) -> Numbers:
    """Return a group's letters, exactly, and its deaths with the builds that came out meanwhile."""
    axis = span.axis(now)
    limits = {"fingerprints": MAX_FINGERPRINTS, "marks": MAX_MARKS, "since": axis.start}
    by_source: dict[str, Counter[int]] = {}
    deaths: list[Bucket] = []
    marks: list[Mark] = []
    for kind, name, status, at, n in _rows(_NUMBERS, {"group": group.group_id, **limits}):
        match kind:
            case "letters":
                by_source.setdefault(name, Counter())[status] += n
            case "deaths":
                deaths.append(Bucket(at=at, counts={name or "–": n}))
            case _:
                marks.append(Mark(at=at, label=name))
    together: Counter[int] = sum(by_source.values(), Counter())
    sources = [SourceCount(source=source, by_status=found) for source, found in sorted(by_source.items())]
    counts = Counts(sources=sources, all=SourceCount(source="", by_status=together))
    return Numbers(counts=counts, trend=chart(deaths, axis, marks))


_SAMPLE = """
SELECT (SELECT jsonb_agg(jsonb_build_array(f.fingerprint, f.version))::text
          FROM (SELECT b.fingerprint, b.version FROM group_fingerprints b WHERE b.group_id = g.group_id
                 ORDER BY b.version DESC, b.fingerprint LIMIT %(fingerprints)s) f),
       l.dead_letter_id, l.message_type, l.cause, left(l.error_text, %(error)s), l.dead_lettered_at
  FROM failure_groups g LEFT JOIN wh_dead_letters l ON l.dead_letter_id = g.sample_letter_id
 WHERE g.group_id = %(group)s
"""


def sample(group: FailureGroup) -> Sample:
    """Return what a group was made from."""
    limits = {"fingerprints": MAX_FINGERPRINTS, "error": MAX_ERROR}
    found = _rows(_SAMPLE, {"group": group.group_id, **limits})
    if not found:
        return Sample(fingerprints=[], letter=None)
    known, letter_id, message_type, cause, error_text, died_at = found[0]
    letter = DeadLetter(
        dead_letter_id=letter_id,
        message_type=message_type,
        cause=cause,
        error_text=error_text,
        dead_lettered_at=died_at,
    )
    fingerprints = [(value, version) for value, version in json.loads(known or "[]")]
    return Sample(fingerprints=fingerprints, letter=letter if letter_id else None)


_RECORDS = """
(SELECT 'note', n.id, n.written_at, n.author, n.text, '', NULL, NULL FROM notes n
  WHERE n.group_id = %(group)s ORDER BY n.written_at DESC, n.id DESC LIMIT %(notes)s)
UNION ALL
(SELECT 'action', a.id, a.at, a.actor, a.reason, a.action, a.before::text, a.after::text FROM operator_actions a
  WHERE a.group_id = %(group)s AND a.action <> 'note' ORDER BY a.at DESC, a.id DESC LIMIT %(actions)s)
"""


def records(group: FailureGroup) -> Records:
    """Return a group's notes, and what people did to it."""
    found = _rows(_RECORDS, {"group": group.group_id, "notes": MAX_NOTES, "actions": LIMIT + 1})
    notes = [
        Note(id=key, written_at=at, author=by, text=text) for kind, key, at, by, text, *_ in found if kind == "note"
    ]
    actions = [
        OperatorAction(id=key, at=at, actor=by, reason=text, action=action, before=_json(before), after=_json(after))
        for kind, key, at, by, text, action, before, after in found
        if kind == "action"
    ]
    notes.sort(key=lambda note: (note.written_at, note.pk), reverse=True)
    actions.sort(key=lambda action: (action.at, action.pk), reverse=True)
    return Records(notes=notes, timeline=of_actions(actions))


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _rows(sql: str, parameters: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
