"""A page of the list of failure groups, in any of its orders."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Case, DateTimeField, Exists, Func, Q, QuerySet, Subquery, TextField, Value, When

from deadletters.models import FailureGroup, GroupFingerprint
from deadletters.queries import grouprows, groups
from deadletters.queries.grouprows import Row
from deadletters.words.filters import CountCursor, Cursor, GroupFilter
from queues.words.redaction import mask_text

COUNT_CAP = 10_000
LOOKED_AT = 20_000
"""How many groups, the last seen, are looked through and put in order where no index does it."""
RECENT = 1_000
"""Groups, the last seen, whose types and owners are suggested."""
SUGGESTED = 50
RATE = timedelta(hours=1)
"""Groups in order of their rate are so by the deaths of this hour and of those before it that it reaches into."""


@dataclass(frozen=True, kw_only=True)
class Suggestions:
    """What the filter's fields may be filled with."""

    types: Sequence[str] = ()
    owners: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the list. `total` is at most COUNT_CAP + 1; `cut_short`: only LOOKED_AT groups were looked through."""

    rows: Sequence[Row]
    total: int
    next: Cursor | CountCursor | None
    cut_short: bool
    suggestions: Suggestions

    @property
    def is_capped(self) -> bool:
        return self.total > COUNT_CAP


def page(filters: GroupFilter, *, now: datetime, seen: datetime | None = None) -> Page:
    """Return the page of the list that the filter names, in its order; `seen`: when the person looked before."""
    found = _found(filters, now)
    shown = found.places[: filters.size]
    known = {group.group_id: group for group in groups.with_notes([place.group_id for place in shown])}
    return Page(
        rows=grouprows.rows([known[place.group_id] for place in shown if place.group_id in known], now=now, seen=seen),
        total=found.total,
        next=_after(shown[-1]) if len(found.places) > filters.size else None,
        cut_short=_needs_looking(filters) and found.are_more,
        suggestions=found.suggestions,
    )


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a group is in an order: its rank, a time or a number, and its id."""

    group_id: UUID
    at: datetime | None
    n: int | None


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A page's groups and one more; how many match; whether there are more groups than are looked through."""

    places: Sequence[_Place]
    total: int
    are_more: bool
    suggestions: Suggestions


_DEATHS = """SELECT fingerprint, version, deaths AS n FROM group_hours WHERE hour >= %(this_hour)s
              UNION ALL
              SELECT fingerprint, version, deaths FROM group_deltas WHERE deaths > 0 AND hour >= %(this_hour)s"""
_BY_TIME = {"last_seen": "m.last_seen_at", "first_seen": "m.first_seen_at"}
_BY_NUMBER = {
    "open": ("m.open_letters", "SELECT fingerprint, version, n FROM group_deltas WHERE recovery_status = 0"),
    "total": ("m.letters", "SELECT fingerprint, version, n FROM group_deltas"),
    "rate": ("0", _DEATHS),
}
"""What the groups of an order are ranked by: their own number, and what is to be added to it."""

_RANKED_BY_TIME = "ranked AS (SELECT m.group_id, {own} AS at, NULL::bigint AS n FROM matching m)"
_RANKED_BY_NUMBER = """
added AS (
    SELECT f.group_id, sum(w.n)::bigint AS n
      FROM ({added}) w JOIN group_fingerprints f ON f.fingerprint = w.fingerprint AND f.version = w.version
     GROUP BY 1),
ranked AS (
    SELECT m.group_id, NULL::timestamptz AS at, {own} + coalesce(a.n, 0) AS n
      FROM matching m LEFT JOIN added a ON a.group_id = m.group_id)
"""
_PAGE = """
WITH matching AS {kept} ({matching}), {ranked}
SELECT (SELECT jsonb_agg(jsonb_build_array(p.group_id, p.at, p.n))::text
          FROM (SELECT r.group_id, r.at, r.n FROM ranked r
                 WHERE {after} ORDER BY r.{order} DESC, r.group_id DESC LIMIT %(size)s) p),
       (SELECT count(*) FROM (SELECT FROM matching LIMIT %(cap)s) m),
       EXISTS (SELECT FROM failure_groups OFFSET %(looked_at)s),
       ARRAY(SELECT DISTINCT r.message_type FROM ({recent}) r), ARRAY(SELECT DISTINCT r.owner FROM ({recent}) r)
"""
_RECENT = "SELECT message_type, owner FROM failure_groups ORDER BY last_seen_at DESC, group_id DESC LIMIT %(recent)s"


def _found(filters: GroupFilter, now: datetime) -> _Found:
    matching, named = _named(_matching(filters, now))
    sql = _PAGE.format(
        # What had to be looked through is kept; what an index has in order is asked for its first rows.
        kept="MATERIALIZED" if _needs_looking(filters) else "NOT MATERIALIZED",
        matching=matching,
        ranked=_ranked(filters),
        recent=_RECENT,
        order="at" if filters.sort in _BY_TIME else "n",
        after=_is_after(filters),
    )
    limits = {"size": filters.size + 1, "cap": COUNT_CAP + 1, "looked_at": LOOKED_AT, "recent": RECENT}
    this_hour = (now - RATE).replace(minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute(sql, {**named, **limits, **_begins_after(filters), "this_hour": this_hour})
        places, total, are_more, types, owners = cursor.fetchone()
    return _Found(
        places=[_place(*each) for each in json.loads(places or "[]")],
        total=total,
        are_more=are_more,
        suggestions=_suggestions(types, owners),
    )


def _named(matching: QuerySet[FailureGroup]) -> tuple[str, dict[str, Any]]:
    """Return the ORM's SQL for what an order needs of groups, its parameters by name."""
    columns = matching.values("group_id", "last_seen_at", "first_seen_at", "letters", "open_letters")
    sql, parameters = columns.query.sql_with_params()
    named = {f"p{number}": value for number, value in enumerate(parameters)}
    return sql % tuple(f"%({name})s" for name in named), named


def _ranked(filters: GroupFilter) -> str:
    if filters.sort in _BY_TIME:
        return _RANKED_BY_TIME.format(own=_BY_TIME[filters.sort])
    own, added = _BY_NUMBER[filters.sort]
    return _RANKED_BY_NUMBER.format(own=own, added=added)


def _is_after(filters: GroupFilter) -> str:
    column = "at" if filters.sort in _BY_TIME else "n"
    return f"(r.{column}, r.group_id) < (%(rank)s, %(id)s)" if filters.after else "true"


def _begins_after(filters: GroupFilter) -> dict[str, Any]:
    match filters.after:
        case Cursor(at=at, id=group_id):
            return {"rank": at, "id": group_id}
        case CountCursor(count=count, id=group_id):
            return {"rank": count, "id": group_id}
    return {}


def _place(group_id: str, at: str | None, n: int | None) -> _Place:
    return _Place(group_id=UUID(group_id), at=datetime.fromisoformat(at) if at else None, n=n)


def _after(last: _Place) -> Cursor | CountCursor:
    if last.at is not None:
        return Cursor(at=last.at, id=last.group_id)
    return CountCursor(count=last.n or 0, id=last.group_id)


def _suggestions(types: Sequence[str], owners: Sequence[str | None]) -> Suggestions:
    """Return what the last seen have: no type that holds a secret."""
    return Suggestions(
        types=sorted(kind for kind in types if kind and mask_text(kind) == kind)[:SUGGESTED],
        owners=sorted(owner for owner in owners if owner)[:SUGGESTED],
    )


def _needs_looking(filters: GroupFilter) -> bool:
    return not filters.is_empty or filters.sort != "last_seen"


def _matching(filters: GroupFilter, now: datetime) -> QuerySet[FailureGroup]:
    conditions = Q(last_seen_at__gte=_LOOKED_BACK_TO) if _needs_looking(filters) else Q()
    if filters.state:
        conditions &= _is_quiet(now) if filters.state == "quiet" else Q(state=filters.state)
    if filters.owner:
        conditions &= Q(owner=None) | Q(owner="") if filters.is_unowned else Q(owner=filters.owner)
    if filters.type:
        conditions &= Q(message_type=filters.type)
    matching = FailureGroup.objects.all()
    if filters.q:
        matching, conditions = matching.alias(words=_WORDS), conditions & _says(filters.q)
    return matching.filter(conditions)


_NEWEST_FIRST = FailureGroup.objects.order_by("-last_seen_at", "-group_id")
# Where there are no more groups than are looked through, none of them has to be sorted to know it.
_LOOKED_BACK_TO = Case(
    When(
        Exists(FailureGroup.objects.all()[LOOKED_AT:]),
        then=Subquery(_NEWEST_FIRST.values("last_seen_at")[LOOKED_AT - 1 : LOOKED_AT]),
    ),
    default=Value("-infinity"),
    output_field=DateTimeField(),
)


def _is_quiet(now: datetime) -> Q:
    until_a_build_or_count = Q(quiet_until_generation__isnull=False) | Q(quiet_until_count__isnull=False)
    return Q(quiet_until__gt=now) | until_a_build_or_count


_WORDS = Func(
    Value("\n"),
    *("title", "template", "place", "message_type", "sample_line", "ticket"),
    function="concat_ws",
    output_field=TextField(),
)
"""What a text is looked for in, as one: half as dear as column by column."""


def _says(text: str) -> Q:
    said = Q(words__icontains=text)
    with_it = GroupFingerprint.objects.filter(fingerprint=text.lower()[:16]).values("group_id")
    return said | Q(group_id__in=with_it) if len(text) == 16 else said
