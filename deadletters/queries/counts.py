"""Exact counts of fingerprints and subjects, and deaths by hour: what is folded and what still waits, at one moment."""

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


def _rows(sql: str, parameters: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
