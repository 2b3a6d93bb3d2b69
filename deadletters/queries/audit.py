"""Reads of the audit: pages of operator actions with what they were done to."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Model, Q, QuerySet, TextField
from django.db.models.functions import Cast, Left

from deadletters.models import DeadLetter, FailureGroup, OperatorAction, RecoveryRun
from deadletters.models.records import NAME_PREFIX
from deadletters.queries.gathering import Part, gather
from deadletters.words.filters import SOURCES, ActionFilter, NumberedCursor
from deadletters.words.jsontexts import MAX_DEPTH
from queues.words.payloads import depth_of

COUNT_CAP = 10_000
SEARCHED = 50_000
"""How many of the newest actions are looked through for what no index finds: a text, or what they were done to."""

MAX_VALUES = 4_000
"""Characters that are read of what an action changed, before and after each."""

MAX_NAMES = 100
"""Names of actors and of actions that are suggested."""

CHUNK = 500
"""Actions that an export reads at once."""

NOTHING = UUID(int=0)

ORDER = ("-at", "-id")

_TARGETS = {
    "letter": Q(dead_letter_id__isnull=False),
    "group": Q(group_id__isnull=False),
    "run": Q(run_id__isnull=False),
    "message": Q(message_id__isnull=False),
    "other": Q(dead_letter_id=None, group_id=None, run_id=None, message_id=None),
}
_QUEUES = {table: name for name, table in SOURCES.items() if name != "broker"}
_COLUMNS = {"letter": "dead_letter_id", "group": "group_id", "run": "run_id", "message": "message_id"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One action with what it was done to, where that is still there.

    before, after: JSON texts, cut behind MAX_VALUES; `action` holds them parsed where they are not cut.
    """

    action: OperatorAction
    before: str | None
    after: str | None
    letter: DeadLetter | None = None
    group: FailureGroup | None = None
    run: RecoveryRun | None = None

    @property
    def queue(self) -> str:
        """The short name of the queue of a live message; empty for anything else."""
        named = self.action.after or self.action.before
        return _QUEUES.get(named.get("source", ""), "") if isinstance(named, dict) else ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the audit, its rows without what the actions were done to.

    `total` is at most COUNT_CAP + 1; `cut_short`: only the newest were looked through.
    """

    rows: Sequence[Row]
    total: int
    next: NumberedCursor | None
    cut_short: bool


def page(filters: ActionFilter, *, now: datetime) -> Page:
    """Return the page of the audit that the filter names, the newest first."""
    matching = _matching(filters, now)
    found = _newest(matching, filters.after, filters.size + 1)
    shown = found[: filters.size]
    return Page(
        rows=[_row(action) for action in shown],
        total=matching.values("pk")[: COUNT_CAP + 1].count(),
        next=_place(shown[-1]) if len(found) > filters.size else None,
        cut_short=is_cut_short(filters, now),
    )


def newest(actions: QuerySet[OperatorAction], limit: int) -> Sequence[Row]:
    """Return the newest of some actions, with what they were done to."""
    rows = [_row(action) for action in _newest(actions, None, limit)]
    return with_targets(rows, targets([row.action for row in rows]))


def chunks(filters: ActionFilter, limit: int, *, now: datetime) -> Iterator[Sequence[Row]]:
    """Yield at most `limit` matching actions in chunks, the newest first, each by a statement of its own."""
    place, left = filters, limit
    while left > 0:
        rows = _newest(_matching(place, now), place.after, min(CHUNK, left))
        if not rows:
            return
        yield [_row(action) for action in rows]
        place, left = replace(place, after=_place(rows[-1])), left - len(rows)


def count(filters: ActionFilter, cap: int, *, now: datetime) -> int:
    """Return how many actions match, at most `cap` + 1."""
    return _matching(filters, now).values("pk")[: cap + 1].count()


def is_cut_short(filters: ActionFilter, now: datetime) -> bool:
    """Say whether only the newest actions are looked through, of more."""
    if not _is_looked_through(filters):
        return False
    return _indexed(filters, now).order_by(*ORDER)[SEARCHED : SEARCHED + 1].exists()


@dataclass(frozen=True, kw_only=True)
class Names:
    """Who ever did anything, and what was ever done, for suggestions."""

    actors: Sequence[str]
    verbs: Sequence[str]


def names() -> Names:
    """Return names in order, each found by one step in an index, however many rows have it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_names('actor')}, {_names('action')}")
        actors, verbs = cursor.fetchone()
    return Names(actors=actors, verbs=verbs)


def _names(column: str) -> str:
    value = f"left(a.{column}, {NAME_PREFIX})"
    return f"""ARRAY(
        WITH RECURSIVE names AS (
            (SELECT {value} AS name FROM operator_actions a ORDER BY 1 LIMIT 1)
            UNION ALL
            SELECT (SELECT {value} FROM operator_actions a WHERE {value} > n.name ORDER BY 1 LIMIT 1)
              FROM names n WHERE n.name IS NOT NULL
        )
        SELECT name FROM names WHERE name IS NOT NULL LIMIT {MAX_NAMES})
    """  # noqa: S608 - a column and numbers of this module


def _matching(filters: ActionFilter, now: datetime) -> QuerySet[OperatorAction]:
    indexed = _indexed(filters, now)
    if not _is_looked_through(filters):
        return indexed
    newest = indexed.order_by(*ORDER).values("id")[:SEARCHED]
    found = OperatorAction.objects.filter(id__in=newest)
    if filters.target:
        found = found.filter(_TARGETS[filters.target])
    return found if filters.exact_id or not filters.q else found.filter(reason__icontains=filters.q)


def _is_looked_through(filters: ActionFilter) -> bool:
    return bool(filters.target or (filters.q and not filters.exact_id))


def _indexed(filters: ActionFilter, now: datetime) -> QuerySet[OperatorAction]:
    since, until = filters.times(now)
    conditions = {
        **{column: filters.id_of(name) for name, column in _COLUMNS.items()},
        "at__gte": since,
        "at__lt": until,
    }
    found = OperatorAction.objects.filter(**{name: value for name, value in conditions.items() if value is not None})
    for name in ("actor", "action"):
        if value := getattr(filters, name):
            found = found.alias(**{f"{name}_prefix": Left(name, NAME_PREFIX)})
            found = found.filter(**{f"{name}_prefix": value[:NAME_PREFIX], name: value})
    if (wanted := filters.exact_id) is not None:
        anything = (Q(**{column: wanted}) for column in _COLUMNS.values())
        found = found.filter(next(anything) | next(anything) | next(anything) | next(anything))
    return found


def _newest(matching: QuerySet[OperatorAction], after: NumberedCursor | None, limit: int) -> Sequence[OperatorAction]:
    if after is not None:
        later = Q(at=after.at, id__lt=after.position) | Q(at__lt=after.at)
        matching = matching.filter(later, at__lte=after.at)
    texts = {f"{name}_text": Left(Cast(name, TextField()), MAX_VALUES + 1) for name in ("before", "after")}
    return list(matching.defer("before", "after").annotate(**texts).order_by(*ORDER)[:limit])


def _place(action: OperatorAction) -> NumberedCursor:
    return NumberedCursor(at=action.at, position=action.pk)


def _row(action: OperatorAction) -> Row:
    before, after = (getattr(action, f"{name}_text") for name in ("before", "after"))
    action.before, action.after = _parsed(before), _parsed(after)
    return Row(action=action, before=before, after=after)


def _parsed(text: str | None) -> Any:
    if text is None or len(text) > MAX_VALUES or depth_of(text) > MAX_DEPTH:
        return None
    return json.loads(text)


Targets = Mapping[UUID | None, Any]


def targets(actions: Sequence[OperatorAction]) -> Targets:
    """Return what actions were done to, by its id, found by one statement; what is gone is missing."""
    if not actions:
        return {}
    found = gather(
        letters=Part(rows=_by_id(DeadLetter, actions, "dead_letter_id"), only=("dead_letter_id", "message_type")),
        groups=Part(rows=_by_id(FailureGroup, actions, "group_id")),
        runs=Part(rows=_by_id(RecoveryRun, actions, "run_id"), without=("scope",)),
    )
    return {one.pk: one for part in found.values() for one in part}


def with_targets(rows: Sequence[Row], known: Targets) -> Sequence[Row]:
    """Return the rows with what the actions were done to, as far as it is known."""
    return [
        replace(
            row,
            letter=known.get(row.action.dead_letter_id),
            group=known.get(row.action.group_id),
            run=known.get(row.action.run_id),
        )
        for row in rows
    ]


def _by_id(model: type[Model], actions: Sequence[OperatorAction], column: str) -> QuerySet[Any]:
    ids = {getattr(action, column) for action in actions} - {None}
    return model._default_manager.filter(pk__in=ids or {NOTHING})
