"""What a row of the list of failure groups shows beside the group itself, for a page of them at once."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from deadletters.models import FailureGroup, RecoveryStatus
from deadletters.queries import counts, visits

HOURS = 24
HOUR = timedelta(hours=1)
LOOKED_AT = 100
"""How many of a fingerprint's oldest letters are asked whether they are open."""
AGAIN_CAP = 1_000
"""Up to which number the letters that died again are counted."""
MAX_FINGERPRINTS = 50


@dataclass(frozen=True, kw_only=True)
class Oldest:
    """When a group's oldest open letter died; not `is_exact`: no earlier than that, the letters before are not open."""

    at: datetime
    is_exact: bool


@dataclass(frozen=True, kw_only=True)
class Running:
    """A recovery run of the group that is under way, with its letters by state."""

    run_id: UUID
    state: str
    totals: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the list.

    `hours`: deaths by build in each of the last 24 hours, the present one last. `again`: open letters that died
    again after a recovery, at most AGAIN_CAP + 1; `again_hours`: those that did in each of these hours, empty = none.
    `goes_to`: the perspective or destination of the sample.
    """

    group: FailureGroup
    note: str
    by_status: Mapping[int, int]
    hours: Sequence[Mapping[str, int]]
    is_unread: bool
    oldest: Oldest | None = None
    again: int = 0
    again_hours: Sequence[int] = ()
    goes_to: str = ""
    running: Running | None = None

    @property
    def open(self) -> int:
        return self.by_status.get(RecoveryStatus.PENDING, 0)

    @property
    def total(self) -> int:
        return sum(self.by_status.values())

    @property
    def is_again_capped(self) -> bool:
        return self.again > AGAIN_CAP


_FACTS = """
SELECT g.group_id, coalesce(s.perspective_name, s.destination, ''), o.open_at, o.known_at, o.again, o.again_hours::text,
       r.run_id, r.state, r.totals::text
  FROM failure_groups g
  LEFT JOIN wh_dead_letters s ON s.dead_letter_id = g.sample_letter_id
 CROSS JOIN LATERAL (
       SELECT min(l.open_at) AS open_at, min(coalesce(l.open_at, l.looked_to)) AS known_at,
              coalesce(sum(a.n), 0)::int AS again, jsonb_agg(h.hours) FILTER (WHERE h.hours IS NOT NULL) AS again_hours
         FROM (SELECT f.fingerprint, f.version FROM group_fingerprints f WHERE f.group_id = g.group_id
                ORDER BY f.version DESC, f.fingerprint LIMIT %(fingerprints)s) f
        CROSS JOIN LATERAL (
              SELECT min(e.dead_lettered_at) FILTER (WHERE e.recovery_status = 0) AS open_at,
                     CASE WHEN count(*) = %(looked_at)s THEN max(e.dead_lettered_at) END AS looked_to
                FROM (SELECT b.dead_lettered_at, b.recovery_status FROM wh_dead_letters b
                       WHERE b.error_fingerprint = f.fingerprint AND b.error_fingerprint_version = f.version
                         AND b.superseded_by IS NULL
                       ORDER BY b.dead_lettered_at, b.dead_letter_id LIMIT %(looked_at)s) e) l
        CROSS JOIN LATERAL (
              SELECT count(*) AS n
                FROM (SELECT FROM wh_dead_letters b
                       WHERE b.error_fingerprint = f.fingerprint AND b.error_fingerprint_version = f.version
                         AND b.superseded_by IS NULL AND b.deaths > 1 AND b.recovery_status = 0
                       LIMIT %(again)s) d) a
        CROSS JOIN LATERAL (
              SELECT jsonb_object_agg(d.hour, d.n) FILTER (WHERE d.hour < %(n_hours)s) AS hours
                FROM (SELECT floor(extract(epoch FROM e.dead_lettered_at - %(since)s) / 3600)::int AS hour,
                             count(*) AS n
                        FROM (SELECT b.dead_lettered_at FROM wh_dead_letters b
                               WHERE a.n > 0 AND b.dead_lettered_at >= %(since)s
                                 AND b.error_fingerprint = f.fingerprint AND b.error_fingerprint_version = f.version
                                 AND b.superseded_by IS NULL AND b.deaths > 1 AND b.recovery_status = 0
                               ORDER BY b.dead_lettered_at DESC, b.dead_letter_id DESC LIMIT %(again)s) e
                       GROUP BY 1) d) h) o
  LEFT JOIN LATERAL (
       SELECT n.run_id, n.state,
              (SELECT jsonb_object_agg(i.state, i.n)
                 FROM (SELECT state, count(*) AS n FROM recovery_items WHERE run_id = n.run_id GROUP BY 1) i) AS totals
         FROM recovery_runs n
        WHERE n.group_id = g.group_id
          AND (n.state IN ('running', 'paused') OR n.state IN ('freezing', 'ready') AND n.starts_at IS NOT NULL)
        ORDER BY n.created_at DESC LIMIT 1) r ON true
 WHERE g.group_id = ANY (%(groups)s)
"""
"""What is looked up row by row: bounded for each, by an index for each."""


def rows(groups: Sequence[FailureGroup], *, now: datetime, seen: datetime | None) -> Sequence[Row]:
    """Return the rows of these groups; `seen`: when the person looked before, None = nothing is new to them."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    since = this_hour - (HOURS - 1) * HOUR
    ids = [group.group_id for group in groups]
    numbers, facts = counts.of_groups(ids, since), _facts(ids, since)
    return [
        Row(
            group=group,
            note=getattr(group, "newest_note", None) or "",
            by_status=numbers.letters[group.group_id],
            hours=[numbers.deaths[group.group_id].get(since + hour * HOUR, {}) for hour in range(HOURS)],
            is_unread=visits.is_new(group, seen),
            **facts.get(group.group_id, {}),
        )
        for group in groups
    ]


def _facts(group_ids: Sequence[UUID], since: datetime) -> Mapping[UUID, Mapping[str, Any]]:
    limits = {"fingerprints": MAX_FINGERPRINTS, "looked_at": LOOKED_AT, "again": AGAIN_CAP + 1}
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, {"groups": list(group_ids), "since": since, "n_hours": HOURS, **limits})
        return {group_id: _fact(*fields) for group_id, *fields in cursor.fetchall()}


def _fact(
    goes_to: str,
    open_at: datetime | None,
    known_at: datetime | None,
    again: int,
    again_hours: str | None,
    run_id: UUID | None,
    state: str,
    totals: str | None,
) -> Mapping[str, Any]:
    return {
        "goes_to": goes_to,
        "oldest": None if known_at is None else Oldest(at=known_at, is_exact=known_at == open_at),
        "again": min(again, AGAIN_CAP + 1),
        "again_hours": _by_hour(json.loads(again_hours or "[]")),
        "running": None if run_id is None else Running(run_id=run_id, state=state, totals=json.loads(totals or "{}")),
    }


def _by_hour(counted: Sequence[Mapping[str, int]]) -> Sequence[int]:
    """Put the counts of several fingerprints together, by hour; empty where nothing died again in these hours."""
    hours: Counter[int] = Counter()
    for counts_of_one in counted:
        hours.update({int(hour): n for hour, n in counts_of_one.items()})
    return [hours[hour] for hour in range(HOURS)] if hours else []
