"""Reads of recovery runs: their list, one of them, what its letters came to."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, Func, Min, OuterRef, Q, QuerySet, TextField, Value
from django.utils import timezone

from deadletters.models import DeadLetter, FailureGroup, ItemState, RecoveryItem, RecoveryRun
from deadletters.queries import groups, letters
from deadletters.words.errors import BadFilter, BadPlan, BadScope, NoSuchRun
from deadletters.words.filters import Cursor, ItemFilter, PlaceCursor, RunFilter
from deadletters.words.plans import Plan
from deadletters.words.scopes import Matching, scope_of
from queues.words.redaction import mask_text

COUNT_CAP = 10_000
MAX_WHYS = 50
MAX_FAULTS = 10
FAILED_SAMPLE = 1_000
"""How many of a run's letters that failed, those sent last, are asked of what."""

RUNS_OF_GROUP = 20
"""How many of a group's runs, the newest, tell what worked."""

OTHER_ITEMS = 2_000
"""How many letters of a run that is not of the group, the first ones by their ids, are asked whether they are."""

_OF_GROUP = """
WITH own (fingerprint) AS MATERIALIZED (
    SELECT DISTINCT fingerprint::text FROM group_fingerprints WHERE group_id = %(group)s LIMIT %(fingerprints)s
), others AS MATERIALIZED (
    SELECT run_id, created_at FROM recovery_runs
     WHERE fingerprints && ARRAY(SELECT fingerprint FROM own) AND group_id IS DISTINCT FROM %(group)s
), found AS (
    (SELECT run_id FROM recovery_runs WHERE group_id = %(group)s ORDER BY created_at DESC LIMIT %(runs)s)
    UNION
    (SELECT run_id FROM others ORDER BY created_at DESC LIMIT %(runs)s))
SELECT r.run_id, r.kind, r.state, r.scope_words, r.plan, r.group_id, r.generation, r.actor, r.reason, r.created_at,
       r.starts_at, r.started_at, r.finished_at, r.frozen_count, r.stop_reason,
       CASE WHEN r.group_id = %(group)s THEN
           (SELECT jsonb_object_agg(i.state, i.n)::text
              FROM (SELECT t.state, count(*) AS n FROM recovery_items t WHERE t.run_id = r.run_id GROUP BY 1) i)
       ELSE
           (SELECT jsonb_object_agg(i.state, i.n)::text
              FROM (SELECT t.state, count(*) AS n
                      FROM (SELECT b.state, b.fingerprint FROM recovery_items b
                             WHERE b.run_id = r.run_id
                               AND b.item_id BETWEEN (left(md5(r.run_id::text), 20) || repeat('0', 12))::uuid
                                                 AND (left(md5(r.run_id::text), 20) || repeat('f', 12))::uuid
                             ORDER BY b.item_id LIMIT %(items)s) t
                     WHERE t.fingerprint IN (SELECT o.fingerprint FROM own o) GROUP BY 1) i)
       END AS by_state
  FROM found f JOIN recovery_runs r ON r.run_id = f.run_id
 ORDER BY r.created_at DESC LIMIT %(runs)s
"""

_WHEN = " at [0-9-]{10} [0-9:]{8} UTC$"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of the list with its letters by state, and the group that it is of, if that is known."""

    run: RecoveryRun
    totals: Mapping[str, int]
    group: FailureGroup | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the list of runs; `total` is at most COUNT_CAP + 1."""

    rows: Sequence[Row]
    total: int
    next: Cursor | None


@dataclass(frozen=True, kw_only=True)
class Items:
    """A page of a run's letters, in the order in which they are sent."""

    rows: Sequence[RecoveryItem]
    next: PlaceCursor | None


def page(filters: RunFilter) -> Page:
    """Return the page of the list that the filter names, newest first."""
    matching = _matching(filters)
    newest = _after(matching, filters.after).defer("scope", "fingerprints").order_by("-created_at", "-run_id")
    found = list(newest[: filters.size + 1])
    shown = found[: filters.size]
    totals = totals_of([run.run_id for run in shown])
    known = groups.named(run.group_id for run in shown if run.group_id)
    return Page(
        rows=[
            Row(run=run, totals=totals[run.run_id], group=known.get(run.group_id) if run.group_id else None)
            for run in shown
        ],
        total=matching.values("pk")[: COUNT_CAP + 1].count(),
        next=Cursor(at=shown[-1].created_at, id=shown[-1].run_id) if len(found) > filters.size else None,
    )


def get(run_id: UUID) -> RecoveryRun:
    """Return one run; raises NoSuchRun."""
    run = RecoveryRun.objects.filter(pk=run_id).first()
    if run is None:
        raise NoSuchRun(str(run_id))
    return run


def plan_of(run: RecoveryRun) -> Plan | None:
    """Return the plan of a run; None for one that another version of this program wrote and this one cannot read."""
    try:
        return Plan.from_json(run.plan)
    except BadPlan:
        return None


def to_send(run_id: UUID) -> int:
    """Return how many letters of a run are not sent yet."""
    return RecoveryItem.objects.filter(run=run_id, state=ItemState.WAITING).count()


def totals(run_id: UUID) -> Mapping[str, int]:
    """Return how many letters of a run are in each state, by name of the state; they are counted."""
    return totals_of([run_id])[run_id]


def totals_of(run_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, int]]:
    """Return the same of several runs in one query."""
    counted = {run_id: dict.fromkeys(map(str, ItemState.values), 0) for run_id in run_ids}
    rows = RecoveryItem.objects.filter(run__in=run_ids).order_by().values_list("run_id", "state")
    for run_id, state, count in rows.annotate(n=Count("*")):
        counted[run_id][state] = count
    return counted


def whys(run_id: UUID) -> Sequence[tuple[str, str, int]]:
    """Return why letters ended as they did: (state, why, how many), the most frequent first.

    When somebody else recovered them is left out where they are several: each has a time of its own.
    """
    reason = Func(F("why"), Value(_WHEN), Value(""), function="regexp_replace", output_field=TextField())
    said = RecoveryItem.objects.filter(run=run_id).exclude(why="").order_by().annotate(reason=reason)
    counted = said.values_list("state", "reason").annotate(n=Count("*"), whole=Min("why"))
    found = counted.order_by("-n", "state", "reason")[:MAX_WHYS]
    return [(state, whole if n == 1 else reason, n) for state, reason, n, whole in found]


def faults(run_id: UUID) -> Sequence[tuple[str, str, int]]:
    """Return what letters that failed died of, as far as they are kept: (state, error line, how many), masked.

    At most MAX_FAULTS, the most frequent first, of the FAILED_SAMPLE letters that were sent last.
    """
    failed, shown = (ItemState.FAILED_AGAIN, ItemState.FAILED_DIFFERENTLY), ("dead_letter_id", "state", "place")
    again, differently = (
        RecoveryItem.objects.filter(run=run_id, state=state).order_by("-place").values_list(*shown)[:FAILED_SAMPLE]
        for state in failed
    )
    newest = again.union(differently, all=True).order_by("-place")[:FAILED_SAMPLE]
    states = {letter_id: state for letter_id, state, _ in newest}
    lines = DeadLetter.objects.filter(pk__in=list(states)).exclude(error_line=None)
    counted = Counter((states[pk], mask_text(line or "")) for pk, line in lines.values_list("pk", "error_line"))
    most = sorted(counted.items(), key=lambda found: (-found[1], found[0]))[:MAX_FAULTS]
    return [(state, line, n) for (state, line), n in most]


def items(run_id: UUID, filters: ItemFilter) -> Items:
    """Return a page of a run's letters."""
    of_run = RecoveryItem.objects.filter(run=run_id)
    if filters.after is not None:
        of_run = of_run.filter(place__gt=filters.after.place)
    limit = filters.size + 1
    states = [filters.state] if filters.state else ItemState.values  # each of which the index yields in order
    first, *others = (of_run.filter(state=state).order_by("place")[:limit] for state in states)
    found = list(first.union(*others, all=True).order_by("place")[:limit] if others else first)
    shown = found[: filters.size]
    return Items(rows=shown, next=PlaceCursor(place=shown[-1].place) if len(found) > filters.size else None)


def newcomers(run: RecoveryRun) -> int:
    """Return how many letters match the scope but died after it was frozen, at most COUNT_CAP + 1."""
    try:
        scope = scope_of(run.scope)
    except (BadScope, BadFilter):
        return 0
    if not isinstance(scope, Matching) or run.frozen_at is None:
        return 0
    counted = 0
    for part in letters.all_matching(scope.filters, now=timezone.now()):
        died_again = Exists(run.items.filter(dead_letter_id=OuterRef("pk")))
        newer = part.filter(~died_again, dead_lettered_at__gt=run.frozen_at).values("pk")
        counted += newer[: COUNT_CAP + 1 - counted].count()
    return counted


def of_group(group_id: UUID) -> Sequence[Row]:
    """Return the newest runs on letters of a group, with those of its letters by state, in one query."""
    limits = {"runs": RUNS_OF_GROUP, "items": OTHER_ITEMS, "fingerprints": groups.MAX_FINGERPRINTS}
    found: Sequence[Any] = list(RecoveryRun.objects.raw(_OF_GROUP, {"group": group_id, **limits}))
    none = dict.fromkeys(map(str, ItemState.values), 0)
    return [Row(run=run, totals=none | json.loads(run.by_state or "{}")) for run in found]


def _matching(filters: RunFilter) -> QuerySet[RecoveryRun]:
    wanted = {
        "state": filters.state,
        "kind": filters.kind,
        "actor": filters.actor,
        "group_id": filters.group_id,
        "generation": filters.generation,
    }
    return RecoveryRun.objects.filter(**{name: value for name, value in wanted.items() if value})


def _after(found: QuerySet[RecoveryRun], cursor: Cursor | None) -> QuerySet[RecoveryRun]:
    if cursor is None:
        return found
    earlier = Q(created_at=cursor.at, run_id__lt=cursor.id) | Q(created_at__lt=cursor.at)
    return found.filter(earlier, created_at__lte=cursor.at)
