"""Reads of failure groups: a page of their list, one group, and what a page needs around it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import F, Func, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Left

from deadletters.models import (
    DeadLetter,
    FailureGroup,
    GroupAlias,
    GroupFingerprint,
    Note,
)
from deadletters.queries import counts, grouprows
from deadletters.queries.counts import Fingerprint
from deadletters.queries.grouprows import Row
from deadletters.words.errors import NoSuchGroup
from deadletters.words.filters import CountCursor, Cursor, GroupFilter
from queues.words.redaction import mask_text

COUNT_CAP = 10_000
LOOKED_AT = 20_000
"""How many groups, the last seen, are looked through and put in order where no index does it."""

RECENT = 1_000
"""Groups, the last seen, whose types and owners are suggested."""
SUGGESTED = 50
NOTE_CHARACTERS = 120
MAX_FINGERPRINTS = 50

RATE = timedelta(hours=1)
"""Groups in order of their rate are so by the deaths of this hour and of those before it that it reaches into."""

_SORTS = {"last_seen": "last_seen_at", "first_seen": "first_seen_at"}


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


@dataclass(frozen=True, kw_only=True)
class SourceCount:
    """How many letters of a group come from a source, by recovery status; what is 0 is missing."""

    source: str
    by_status: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.by_status.values())


@dataclass(frozen=True, kw_only=True)
class Counts:
    """A group's letters: by source, and all of them."""

    sources: Sequence[SourceCount]
    all: SourceCount


def page(filters: GroupFilter, *, now: datetime, seen: datetime | None = None) -> Page:
    """Return the page of the list that the filter names, in its order; `seen`: when the person looked before."""
    matching = _matching(filters, now)
    by_time = filters.sort in _SORTS
    groups, following = _by_time(matching, filters) if by_time else _by_count(matching, filters, now)
    total, are_more, suggestions = _around(matching)
    return Page(
        rows=grouprows.rows(groups, now=now, seen=seen),
        total=total,
        next=following,
        cut_short=_needs_looking(filters) and are_more,
        suggestions=suggestions,
    )


_AROUND = """
SELECT (SELECT count(*) FROM ({matching}) m), EXISTS (SELECT FROM failure_groups OFFSET %s),
       ARRAY(SELECT DISTINCT r.message_type FROM ({recent}) r), ARRAY(SELECT DISTINCT r.owner FROM ({recent}) r)
"""


def _around(matching: QuerySet[FailureGroup]) -> tuple[int, bool, Suggestions]:
    """Return how many groups match, at most COUNT_CAP + 1, whether there are more than are looked through, and what
    types and owners the last seen have: no type that holds a secret.
    """
    capped, parameters = matching.values("pk")[: COUNT_CAP + 1].query.sql_with_params()
    recent = "SELECT message_type, owner FROM failure_groups ORDER BY last_seen_at DESC, group_id DESC LIMIT %s"
    with connection.cursor() as cursor:
        cursor.execute(_AROUND.format(matching=capped, recent=recent), [*parameters, LOOKED_AT, RECENT, RECENT])
        total, are_more, types, owners = cursor.fetchone()
    suggestions = Suggestions(
        types=sorted(kind for kind in types if kind and mask_text(kind) == kind)[:SUGGESTED],
        owners=sorted(owner for owner in owners if owner)[:SUGGESTED],
    )
    return total, are_more, suggestions


def get(group_id: UUID) -> FailureGroup:
    """Return a group, or the one that it was merged into; raises NoSuchGroup."""
    found = FailureGroup.objects.filter(Q(pk=group_id) | Q(aliases__alias=group_id)).first()
    if found is None:
        raise NoSuchGroup(str(group_id))
    return found


def with_fingerprint(fingerprint: str, version: int | None = None) -> FailureGroup | None:
    """Return the group of a fingerprint, in its newest version unless one is given; None while it is not folded."""
    known = GroupFingerprint.objects.filter(fingerprint=fingerprint).select_related("group")
    if version is not None:
        known = known.filter(version=version)
    found = known.order_by("-version").first()
    return found.group if found else None


def with_fingerprints(fingerprints: Iterable[str]) -> Mapping[str, FailureGroup]:
    """Return the groups of fingerprints, each in its newest version; one that is not folded is missing."""
    known = GroupFingerprint.objects.filter(fingerprint__in=list(fingerprints)).select_related("group")
    return {each.fingerprint: each.group for each in known.order_by("version")}


def named(group_ids: Iterable[UUID]) -> Mapping[UUID, FailureGroup]:
    """Return groups by the ids that they are asked for by, those of merged ones too; an unknown one is missing."""
    wanted = set(group_ids)
    found = FailureGroup.objects.in_bulk(wanted)
    merged = GroupAlias.objects.filter(alias__in=wanted - set(found)).select_related("group")
    return {**found, **{each.alias: each.group for each in merged}}


def of_letter(letter: DeadLetter) -> FailureGroup | None:
    """Return the group of a letter; None while it is not folded."""
    if letter.error_fingerprint is None:
        return None
    return with_fingerprint(letter.error_fingerprint, letter.error_fingerprint_version or 1)


def others_of(letter: DeadLetter) -> int:
    """Return how many other letters have the letter's fingerprint."""
    if letter.error_fingerprint is None:
        return 0
    same = counts.of_fingerprints([(letter.error_fingerprint, letter.error_fingerprint_version or 1)])
    return max(sum(count.n for count in same) - 1, 0)


def fingerprints_of(group: FailureGroup) -> Sequence[Fingerprint]:
    known = group.fingerprints.order_by("-version", "fingerprint").values_list("fingerprint", "version")
    return list(known[:MAX_FINGERPRINTS])


def counts_of(fingerprints: Sequence[Fingerprint]) -> Counts:
    """Return how many letters have one of the fingerprints, exactly."""
    by_source: dict[str, Counter[int]] = {}
    for count in counts.of_fingerprints(fingerprints):
        by_source.setdefault(count.source, Counter())[count.status] += count.n
    together: Counter[int] = sum(by_source.values(), Counter())
    sources = [SourceCount(source=source, by_status=dict(found)) for source, found in sorted(by_source.items())]
    return Counts(sources=sources, all=SourceCount(source="", by_status=dict(together)))


def notes_of(group: FailureGroup) -> Sequence[Note]:
    return list(group.notes.order_by("-written_at", "-id")[:100])


def with_notes(group_ids: Iterable[UUID]) -> Sequence[FailureGroup]:
    """Return groups with the beginning of their newest notes, for rows of a list."""
    return list(_with_note(FailureGroup.objects.filter(pk__in=list(group_ids))))


def _needs_looking(filters: GroupFilter) -> bool:
    return not filters.is_empty or filters.sort != "last_seen"


def _matching(filters: GroupFilter, now: datetime) -> QuerySet[FailureGroup]:
    groups = FailureGroup.objects.all()
    if _needs_looking(filters):
        seen = groups.order_by("-last_seen_at", "-group_id").values("group_id")[:LOOKED_AT]
        groups = groups.filter(group_id__in=seen)
    conditions = Q()
    if filters.state:
        conditions &= _is_quiet(now) if filters.state == "quiet" else Q(state=filters.state)
    if filters.owner:
        conditions &= Q(owner=None) | Q(owner="") if filters.is_unowned else Q(owner=filters.owner)
    if filters.type:
        conditions &= Q(message_type=filters.type)
    if filters.q:
        groups, conditions = groups.alias(words=_WORDS), conditions & _says(filters.q)
    return groups.filter(conditions)


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


def _by_time(matching: QuerySet[FailureGroup], filters: GroupFilter) -> tuple[Sequence[FailureGroup], Cursor | None]:
    column = _SORTS[filters.sort]
    after = filters.after
    if isinstance(after, Cursor):
        later = Q(**{column: after.at, "group_id__lt": after.id}) | Q(**{f"{column}__lt": after.at})
        matching = matching.filter(later, **{f"{column}__lte": after.at})
    ordered = _with_note(matching).order_by(f"-{column}", "-group_id")
    groups = list(ordered[: filters.size + 1])
    shown = groups[: filters.size]
    is_last = len(groups) <= filters.size
    return shown, None if is_last else Cursor(at=getattr(shown[-1], column), id=shown[-1].group_id)


def _by_count(
    matching: QuerySet[FailureGroup], filters: GroupFilter, now: datetime
) -> tuple[Sequence[FailureGroup], CountCursor | None]:
    ranked = _ranked(matching, filters, now)
    shown = ranked[: filters.size]
    known = _with_note(FailureGroup.objects.filter(pk__in=[group_id for group_id, _ in shown])).in_bulk()
    is_last = len(ranked) <= filters.size
    following = None if is_last else CountCursor(count=shown[-1][1], id=shown[-1][0])
    return [known[group_id] for group_id, _ in shown if group_id in known], following


_LETTERS = """SELECT fingerprint, version, n FROM (
                   SELECT fingerprint, version, recovery_status, n FROM group_counts
                   UNION ALL SELECT fingerprint, version, recovery_status, n FROM group_deltas) c"""
_COUNTED = {
    "open": f"{_LETTERS} WHERE recovery_status = 0",
    "total": _LETTERS,
    "rate": """SELECT fingerprint, version, deaths FROM (
                   SELECT fingerprint, version, deaths, hour FROM group_hours
                   UNION ALL SELECT fingerprint, version, deaths, hour FROM group_deltas WHERE deaths > 0) h
                WHERE hour >= %s""",
}
"""What the groups of an order are ranked by; the rate since a time."""


def _ranked(matching: QuerySet[FailureGroup], filters: GroupFilter, now: datetime) -> Sequence[tuple[UUID, int]]:
    """Return (group, count) of a page and one more, most letters first."""
    candidates, parameters = matching.values("group_id").query.sql_with_params()
    after = filters.after if isinstance(filters.after, CountCursor) else None
    sql = f"""
        WITH candidates AS ({candidates}), numbers (fingerprint, version, n) AS ({_COUNTED[filters.sort]}), counted AS (
            SELECT f.group_id, coalesce(sum(t.n), 0)::bigint AS n
              FROM candidates c JOIN group_fingerprints f ON f.group_id = c.group_id
              LEFT JOIN numbers t ON t.fingerprint = f.fingerprint AND t.version = f.version
             GROUP BY 1)
        SELECT group_id, n FROM counted
         WHERE %s::bigint IS NULL OR n < %s OR (n = %s AND group_id < %s)
         ORDER BY n DESC, group_id DESC LIMIT %s
    """  # noqa: S608 - the ORM's own SQL with its parameters
    since = [(now - RATE).replace(minute=0, second=0, microsecond=0)] if filters.sort == "rate" else []
    place = [after.count, after.count, after.count, after.id] if after else [None] * 4
    with connection.cursor() as cursor:
        cursor.execute(sql, [*parameters, *since, *place, filters.size + 1])
        return [(group_id, n) for group_id, n in cursor.fetchall()]


def _with_note(groups: QuerySet[FailureGroup]) -> QuerySet[FailureGroup]:
    newest = Note.objects.filter(group=OuterRef("pk")).order_by("-written_at", "-id")
    return groups.annotate(newest_note=Subquery(newest.values(said=Left(F("text"), NOTE_CHARACTERS))[:1]))
