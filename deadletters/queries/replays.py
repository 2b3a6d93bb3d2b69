"""Reads for the replays of new builds: what one may try, and what each has come to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, QuerySet
from django.db.models.expressions import RawSQL

from deadletters.models import DeadLetter, Generation, ItemState, RecoveryItem, RecoveryRun, RunKind

LAST_BUILDS = 10
"""How many builds are shown with what they replayed."""

FIRST = UUID(int=0)
"""Less than the id of any group."""


def replayable(group_id: UUID, build: str) -> QuerySet[DeadLetter]:
    """Return the letters of a group that get one free attempt on a build. Source: `sql/replays_v1.sql`."""
    eligible = RawSQL("SELECT * FROM replayable_dead_letters(%s, %s, now())", [group_id, build])
    return DeadLetter.objects.filter(dead_letter_id__in=eligible)


@dataclass(frozen=True, kw_only=True)
class GroupsPage:
    """Groups that a build has to replay among those looked at; `last` is the last one looked at, None = all were."""

    group_ids: Sequence[UUID]
    last: UUID | None


def groups_to_replay(build: str, after: UUID, limit: int) -> GroupsPage:
    """Look at `limit` groups after one, in the order of their ids."""
    looked_at = _rows("SELECT group_id, is_due FROM groups_to_replay(%s, %s, %s)", [build, after, limit])
    return GroupsPage(
        group_ids=[group_id for group_id, is_due in looked_at if is_due],
        last=looked_at[-1][0] if len(looked_at) == limit else None,
    )


def fixed_groups_to_replay(build: str, limit: int) -> Sequence[UUID]:
    """Return groups that were marked fixed in a build after it began to run."""
    return [row[0] for row in _rows("SELECT * FROM fixed_groups_to_replay(%s, %s)", [build, limit])]


def due(live: Sequence[int]) -> Sequence[int]:
    """Return which of the live builds have something to replay, the first seen first."""
    return [row[0] for row in _rows("SELECT id FROM generations_to_replay(%s)", [list(live)])]


def register(builds: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """Register builds {service, build, types, perspectives}, or note that they are still there; return their ids."""
    return [row[0] for row in _rows("SELECT id FROM register_generations(%s)", [json.dumps(builds)])]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A build and what it replayed: groups, which are runs, and letters by their items' states."""

    generation: Generation
    groups: int
    totals: Mapping[str, int]

    @property
    def letters(self) -> int:
        return sum(self.totals.values())


def last_builds(limit: int = LAST_BUILDS) -> Sequence[Replayed]:
    """Return the last builds, the newest first, with what each replayed; two services may have one build."""
    return _replayed(list(Generation.objects.order_by("-first_seen_at", "-id")[:limit]))


def of_build(generation: Generation) -> Replayed:
    """Return what a build replayed."""
    return _replayed([generation])[0]


def _replayed(generations: Sequence[Generation]) -> Sequence[Replayed]:
    """Add to each build the sums over its runs and their items."""
    runs = RecoveryRun.objects.filter(kind=RunKind.REPLAY, generation__in={row.build for row in generations}).order_by()
    groups = dict(runs.values_list("generation").annotate(n=Count("*")))
    items = RecoveryItem.objects.filter(run__in=runs).order_by().values_list("run__generation", "state")
    counted = {(build, state): n for build, state, n in items.annotate(n=Count("*"))}
    return [
        Replayed(
            generation=row,
            groups=groups.get(row.build, 0),
            totals={state: counted.get((row.build, state), 0) for state in ItemState},
        )
        for row in generations
    ]


def _rows(sql: str, parameters: Sequence[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
