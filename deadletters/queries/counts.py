"""Exact counts of fingerprints and subjects, and deaths by hour: what is folded and what still waits, at one moment."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

Fingerprint = tuple[str, int]
"""A fingerprint with its version."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many current letters of one fingerprint come from a source and are in a recovery status."""

    fingerprint: Fingerprint
    source: str
    status: int
    n: int


@dataclass(frozen=True, kw_only=True)
class Deaths:
    """Deaths of one fingerprint in one hour on one build."""

    fingerprint: Fingerprint
    hour: datetime
    generation: str
    n: int


@dataclass(frozen=True, kw_only=True)
class OfGroups:
    """Numbers by group: its letters by recovery status, its deaths by hour and build; what is 0 is missing."""

    letters: Mapping[UUID, Mapping[int, int]]
    deaths: Mapping[UUID, Mapping[datetime, Mapping[str, int]]]


_OF_GROUPS = """
WITH known AS MATERIALIZED (
    SELECT f.group_id, f.fingerprint, f.version FROM group_fingerprints f WHERE f.group_id = ANY (%(groups)s)
), letters AS (
    SELECT t.fingerprint, t.version, t.recovery_status, t.n FROM group_totals t
     WHERE t.fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k))
), deaths AS (
    SELECT h.fingerprint, h.version, h.hour, h.generation, h.deaths FROM group_hours h
     WHERE h.fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k)) AND h.hour >= %(since)s
    UNION ALL
    SELECT d.fingerprint, d.version, d.hour, d.generation, d.deaths FROM group_deltas d
     WHERE d.deaths > 0 AND d.fingerprint = ANY (ARRAY(SELECT k.fingerprint FROM known k)) AND d.hour >= %(since)s
)
SELECT k.group_id, l.recovery_status, NULL::timestamptz, '', sum(l.n)::bigint
  FROM known k JOIN letters l ON l.fingerprint = k.fingerprint AND l.version = k.version
 GROUP BY 1, 2 HAVING sum(l.n) <> 0
UNION ALL
SELECT k.group_id, NULL, d.hour, d.generation, sum(d.deaths)::bigint
  FROM known k JOIN deaths d ON d.fingerprint = k.fingerprint AND d.version = k.version
 GROUP BY 1, 3, 4 HAVING sum(d.deaths) <> 0
"""


def of_fingerprints(fingerprints: Iterable[Fingerprint]) -> Sequence[Count]:
    """Return the counts of the fingerprints that are not 0."""
    wanted = set(fingerprints)
    rows = _rows(
        "SELECT fingerprint, version, source_table, recovery_status, sum(n)::bigint FROM group_totals"
        " WHERE fingerprint = ANY(%s) GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0",
        [_values(wanted)],
    )
    counts = [
        Count(fingerprint=(value, version), source=source, status=s, n=n) for value, version, source, s, n in rows
    ]
    return [count for count in counts if count.fingerprint in wanted]


def deaths_since(fingerprints: Iterable[Fingerprint], since: datetime) -> Sequence[Deaths]:
    """Return the deaths of the fingerprints by hour and build, in order."""
    wanted = set(fingerprints)
    rows = _rows(
        "SELECT fingerprint, version, hour, generation, sum(deaths)::bigint"
        "  FROM (SELECT fingerprint, version, hour, generation, deaths FROM group_hours"
        "        UNION ALL"
        "        SELECT fingerprint, version, hour, generation, deaths FROM group_deltas WHERE deaths > 0) h"
        " WHERE fingerprint = ANY(%s) AND hour >= %s GROUP BY 1, 2, 3, 4 ORDER BY hour, generation",
        [_values(wanted), since],
    )
    deaths = [Deaths(fingerprint=(value, version), hour=hour, generation=g, n=n) for value, version, hour, g, n in rows]
    return [death for death in deaths if death.fingerprint in wanted]


def of_groups(group_ids: Sequence[UUID], since: datetime) -> OfGroups:
    """Return the letters of groups by status, and their deaths by hour and build since a time, at one moment."""
    letters: dict[UUID, Counter[int]] = {group_id: Counter() for group_id in group_ids}
    deaths: dict[UUID, dict[datetime, Counter[str]]] = {group_id: {} for group_id in group_ids}
    for group_id, status, hour, generation, n in _rows(_OF_GROUPS, {"groups": list(group_ids), "since": since}):
        if hour is None:
            letters[group_id][status] += n
        else:
            deaths[group_id].setdefault(hour, Counter())[generation] += n
    return OfGroups(letters=letters, deaths=deaths)


def all_deaths_since(since: datetime) -> Sequence[tuple[datetime, str, int]]:
    """Return (hour, build, deaths) of all fingerprints together, in order."""
    return _rows(
        "SELECT hour, generation, sum(deaths)::bigint"
        "  FROM (SELECT hour, generation, deaths FROM group_hours WHERE hour >= %s"
        "        UNION ALL SELECT hour, generation, deaths FROM group_deltas WHERE deaths <> 0 AND hour >= %s) h"
        " GROUP BY 1, 2 HAVING sum(deaths) > 0 ORDER BY 1, 2",
        [since, since],
    )


def of_subjects(keys: Iterable[UUID]) -> Mapping[UUID, Mapping[int, int]]:
    """Return the counts of each subject by recovery status; without what is 0."""
    rows = _rows(
        "SELECT subject_key, recovery_status, sum(n)::bigint"
        "  FROM (SELECT subject_key, recovery_status, n FROM subject_counts"
        "        UNION ALL SELECT subject_key, recovery_status, n FROM subject_deltas) c"
        " WHERE subject_key = ANY(%s) GROUP BY 1, 2 HAVING sum(n) <> 0",
        [list(keys)],
    )
    counts: dict[UUID, dict[int, int]] = {}
    for key, status, n in rows:
        counts.setdefault(key, {})[status] = n
    return counts


def _values(fingerprints: set[Fingerprint]) -> list[str]:
    return sorted({value for value, _ in fingerprints})


def _rows(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
