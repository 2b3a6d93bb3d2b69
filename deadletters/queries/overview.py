"""Reads of the overview: what is broken, how much of it, since when. Numbers are counters, or end at COUNT_CAP."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from deadletters.models import FailureGroup, OperatorAction, RecoveryRun, RecoveryStatus, RunState
from deadletters.queries import audit, groups, replays, runs, subjects, visits
from deadletters.queries.letters import COUNT_CAP
from deadletters.words.filters import OTHER_SOURCES, SOURCES, SubjectFilter
from queues import instances

HOUR = timedelta(hours=1)
AGES: Mapping[str, timedelta] = {
    "1h": HOUR,
    "3h": 3 * HOUR,
    "24h": 24 * HOUR,
    "3d": 72 * HOUR,
    "7d": 168 * HOUR,
}
"""The ages of the matrix, as filters write them."""

ALWAYS_SHOWN = ("inbox", "outbox", "perspectives")
TOP_GROUPS = 8
TOP_SUBJECTS = 8
UNFINISHED_RUNS = 5
LAST_BUILDS = 3
LAST_ACTIONS = 10
MAX_REASONS = 30

_SOURCES = """
WITH totals AS (
    SELECT source_table, recovery_status, sum(n)::bigint AS n, max(changed_at) AS changed_at
      FROM (SELECT source_table, recovery_status, n, changed_at FROM group_counts
            UNION ALL
            SELECT source_table, recovery_status, n, statement_timestamp() FROM group_deltas WHERE n <> 0) c
     GROUP BY 1, 2)
SELECT t.source_table, t.recovery_status, t.n, t.changed_at,
       CASE WHEN t.recovery_status = 0 AND t.n > 0 THEN
           (SELECT count(*) FROM (
                SELECT FROM wh_dead_letters l
                 WHERE l.source_table = t.source_table AND l.recovery_status = 0 AND l.deaths > 1
                   AND l.superseded_by IS NULL
                 LIMIT %s) a)
       ELSE 0 END
  FROM totals t
"""

_OPEN = "wh_dead_letters l WHERE l.recovery_status = 0 AND l.superseded_by IS NULL"
_MATRIX = f"""
WITH RECURSIVE reasons AS (
    (SELECT l.failure_reason AS reason FROM {_OPEN} ORDER BY l.failure_reason LIMIT 1)
    UNION ALL
    SELECT (SELECT l.failure_reason FROM {_OPEN} AND l.failure_reason > r.reason ORDER BY l.failure_reason LIMIT 1)
      FROM reasons r WHERE r.reason IS NOT NULL
), shown AS (
    SELECT reason FROM reasons WHERE reason IS NOT NULL LIMIT %(reasons)s)
SELECT s.reason, n.* FROM shown s CROSS JOIN LATERAL (
       SELECT {{ages}}, count(*) FROM (
           SELECT l.dead_lettered_at AS at FROM {_OPEN} AND l.failure_reason = s.reason
            ORDER BY l.dead_lettered_at DESC LIMIT %(cap)s) newest) n
UNION ALL
SELECT NULL, n.* FROM (
       SELECT {{ages}}, (
              SELECT coalesce(sum(c.n), 0)::bigint
                FROM (SELECT n FROM group_counts WHERE recovery_status = 0
                      UNION ALL SELECT n FROM group_deltas WHERE recovery_status = 0) c) FROM (
           SELECT l.dead_lettered_at AS at FROM {_OPEN} ORDER BY l.dead_lettered_at DESC LIMIT %(cap)s) newest) n
"""  # noqa: S608 - nothing of anybody's is in it
"""Of the newest letters of a reason those of each age: the younger ones are among them, so one walk counts all."""

_GROUPS = """
WITH waiting AS (
    SELECT f.group_id, sum(d.n)::bigint AS n
      FROM group_deltas d JOIN group_fingerprints f ON f.fingerprint = d.fingerprint AND f.version = d.version
     WHERE d.recovery_status = 0
     GROUP BY 1)
SELECT g.group_id, g.title, g.template, g.place, g.message_type, g.sample_line, g.first_seen_at, g.last_seen_at,
       g.state, g.state_at, g.owner, g.quiet_until, g.quiet_until_generation, g.quiet_until_count, g.ticket,
       g.open_letters + coalesce(w.n, 0) AS open
  FROM failure_groups g LEFT JOIN waiting w ON w.group_id = g.group_id
 WHERE g.open_letters + coalesce(w.n, 0) > 0
 ORDER BY open DESC, g.group_id LIMIT %s
"""

_TRENDS = """
SELECT f.group_id, h.hour, sum(h.deaths)::bigint
  FROM group_fingerprints f
 CROSS JOIN LATERAL (
       SELECT g.hour, g.deaths FROM group_hours g
        WHERE g.fingerprint = f.fingerprint AND g.version = f.version AND g.hour >= %(since)s
       UNION ALL
       SELECT d.hour, d.deaths FROM group_deltas d
        WHERE d.fingerprint = f.fingerprint AND d.version = f.version AND d.hour >= %(since)s) h
 WHERE f.group_id = ANY (%(groups)s)
 GROUP BY 1, 2
"""

_SHIFT = """
SELECT (SELECT count(*) FROM (SELECT FROM wh_dead_letters l
         WHERE l.superseded_by IS NULL AND l.dead_lettered_at >= %(since)s LIMIT %(cap)s) c),
       count(*), count(*) FILTER (WHERE g.first_seen_at > %(since)s),
       count(*) FILTER (WHERE g.state = 'regressed' AND g.state_at > %(since)s)
  FROM (SELECT first_seen_at, state, state_at FROM failure_groups
         WHERE last_seen_at >= %(since)s LIMIT %(cap)s) g
"""


@dataclass(frozen=True, kw_only=True)
class SourceLine:
    """Letters of one source by recovery status, exactly; `again`: of the open ones those that died again.

    `name` as filters write it, empty for all sources; `again` is at most COUNT_CAP + 1.
    """

    name: str
    by_status: Mapping[int, int]
    again: int

    @property
    def open(self) -> int:
        return self.by_status.get(RecoveryStatus.PENDING, 0)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The sources and their sum. `quiet_since`: since when nothing is open, None = something is or never was."""

    lines: Sequence[SourceLine]
    all: SourceLine
    quiet_since: datetime | None

    @property
    def is_quiet(self) -> bool:
        return not self.all.open


@dataclass(frozen=True, kw_only=True)
class ReasonLine:
    """Open letters of one reason, None = of all, by AGES and at the end all.

    Each number is at most COUNT_CAP + 1, but for the last one of all reasons, which is counted elsewhere.
    """

    reason: int | None
    numbers: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Open letters by reason and age, the most frequent reason first; `is_cut`: there may be more reasons."""

    lines: Sequence[ReasonLine]
    all: ReasonLine
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class GroupLine:
    """One of the groups with most open letters. `hours`: deaths in each of the last 24 hours, the present one last."""

    group: FailureGroup
    open: int
    hours: Sequence[int]
    is_new: bool


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What happened since a visit; each number is at most COUNT_CAP + 1."""

    since: datetime
    letters: int
    groups: int
    new: int
    regressed: int


@dataclass(frozen=True, kw_only=True)
class UnfinishedRuns:
    """The newest runs that are not at their end, with how many there are, at most COUNT_CAP + 1."""

    rows: Sequence[runs.Row]
    total: int


@dataclass(frozen=True, kw_only=True)
class Build:
    """One of the last builds; `is_live`: a process runs it."""

    replayed: replays.Replayed
    is_live: bool


def sources() -> Sources:
    """Return how many letters come from each source, those that are always shown first."""
    by_name: dict[str, Counter[int]] = {name: Counter() for name in ALWAYS_SHOWN}
    again: Counter[str] = Counter()
    names, changes = {table: name for name, table in SOURCES.items()}, []
    for table, status, n, changed_at, died_again in _rows(_SOURCES, [COUNT_CAP + 1]):
        name = names.get(table, OTHER_SOURCES)
        by_name.setdefault(name, Counter())[status] += n
        again[name] += died_again
        changes += [changed_at] if status == RecoveryStatus.PENDING else []
    lines = [SourceLine(name=name, by_status=numbers, again=again[name]) for name, numbers in by_name.items()]
    together = SourceLine(name="", by_status=sum(by_name.values(), Counter()), again=again.total())
    return Sources(
        lines=[line for line in lines if line.name in ALWAYS_SHOWN or any(line.by_status.values())],
        all=together,
        quiet_since=None if together.open else max(changes, default=None),
    )


def matrix(*, now: datetime) -> Matrix:
    """Return the open letters by reason and age; an age counts as the list's "since" does."""
    ages = ", ".join(f"count(*) FILTER (WHERE at >= %({age})s)" for age in AGES)
    since = {age: now - span for age, span in AGES.items()}
    found = _rows(_MATRIX.format(ages=ages), {**since, "cap": COUNT_CAP + 1, "reasons": MAX_REASONS})
    *lines, all_reasons = [ReasonLine(reason=reason, numbers=numbers) for reason, *numbers in found]
    lines.sort(key=lambda line: (-line.numbers[-1], line.reason))
    return Matrix(lines=lines, all=all_reasons, is_cut=len(lines) == MAX_REASONS)


def top_groups(since: datetime | None, *, now: datetime) -> Sequence[GroupLine]:
    """Return the groups with most open letters; new ones are those that appeared or came back after `since`."""
    found: Any = FailureGroup.objects.raw(_GROUPS, [TOP_GROUPS])
    top = list(found)
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [this_hour - back * HOUR for back in range(23, -1, -1)]
    trends = _trends([group.group_id for group in top], hours[0])
    return [
        GroupLine(
            group=group,
            open=group.open,
            hours=[trends.get((group.group_id, hour), 0) for hour in hours],
            is_new=visits.is_new(group, since),
        )
        for group in top
    ]


def _trends(group_ids: Sequence[UUID], since: datetime) -> Mapping[tuple[UUID, datetime], int]:
    found = _rows(_TRENDS, {"groups": list(group_ids), "since": since})
    return {(group_id, hour): n for group_id, hour, n in found}


def shift(since: datetime | None) -> Shift | None:
    """Return what happened since a visit; None when there was none."""
    if since is None:
        return None
    ((letters, seen, new, regressed),) = _rows(_SHIFT, {"since": since, "cap": COUNT_CAP + 1})
    return Shift(since=since, letters=letters, groups=seen, new=new, regressed=regressed)


def actions_of_others(since: datetime | None, user: Any) -> Sequence[audit.Row]:
    """Return the last things that others did since a visit, the newest first."""
    if since is None:
        return []
    done = OperatorAction.objects.filter(at__gte=since).exclude(actor_id=str(user.pk))
    return audit.newest(done, LAST_ACTIONS)


def top_subjects() -> Sequence[subjects.Row]:
    """Return the subjects that most open letters are about."""
    return subjects.page(SubjectFilter(size=25)).rows[:TOP_SUBJECTS]


def unfinished_runs() -> UnfinishedRuns:
    """Return the runs that go on or will, without drafts, which nobody has started."""
    states = [RunState.FREEZING, RunState.READY, RunState.RUNNING, RunState.PAUSED]
    unfinished = RecoveryRun.objects.filter(state__in=states).exclude(state=RunState.READY, starts_at=None)
    shown = list(unfinished.defer("scope").order_by("-created_at", "-run_id")[:UNFINISHED_RUNS])
    totals = runs.totals_of([run.run_id for run in shown])
    known = groups.named(run.group_id for run in shown if run.group_id)
    rows = [
        runs.Row(run=run, totals=totals[run.run_id], group=known.get(run.group_id) if run.group_id else None)
        for run in shown
    ]
    return UnfinishedRuns(rows=rows, total=unfinished.values("pk")[: COUNT_CAP + 1].count())


def last_builds() -> Sequence[Build]:
    """Return the last builds, the newest first, with what each replayed and whether it is live."""
    live = {(build.service, build.name) for build in instances.live_builds()}
    return [
        Build(replayed=row, is_live=(row.generation.service, row.generation.build) in live)
        for row in replays.last_builds(LAST_BUILDS)
    ]


def _rows(sql: str, parameters: Any) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
