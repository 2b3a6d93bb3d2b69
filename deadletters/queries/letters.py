"""Reads of dead letters: a page of the list, one letter, and what a page needs around them.

Lists never select bodies or whole error texts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import Count, OuterRef, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Left

from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterPayload,
    DeadLetterSubject,
    GroupFingerprint,
    Note,
    RecoveryStatus,
)
from deadletters.models.letters import OWNER_PREFIX, TYPE_PREFIX
from deadletters.queries import payloads
from deadletters.queries.letterrows import LIST_FIELDS, Row, with_subjects
from deadletters.words.errors import BadFilter, NoSuchLetter
from deadletters.words.filters import SOURCES, STATUSES, Cursor, LetterFilter

COUNT_CAP = 10_000
SEARCHED = 20_000
"""How many of the newest letters are looked through for what no index finds: a text, a cause, a build and the like."""
SEARCHED_OF_SOME = 5_000
"""How many of the newest that another index yields: they lie far apart, and each is read for itself."""

MAX_FINGERPRINTS = 50
"""How many fingerprints of one group are read."""

NEAR = 1_000
"""How many letters on each side of one are looked through for its neighbours in a list that no index finds."""

_LAST_ID = UUID(int=2**128 - 1)
ORDER_FIELDS = ("dead_lettered_at", "dead_letter_id")
ORDER = ("-dead_lettered_at", "-dead_letter_id")

AHEAD = timedelta(minutes=1)
"""How far the clocks of those that write letters may be ahead; what died later than that is never news."""

MAX_SURVIVORS = 10
"""How many letters that took another's place are followed."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the list. `cut_short`: only the `searched` newest were looked at.

    `staying`: the letters of it that do not match any more, and stay for one look.
    """

    rows: Sequence[Row]
    next: Cursor | None
    newest: Cursor | None
    cut_short: bool
    searched: int
    staying: Collection[UUID] = ()

    @property
    def matching(self) -> Sequence[Row]:
        return [row for row in self.rows if row.letter.pk not in self.staying]


def page(filters: LetterFilter, *, now: datetime, kept: Collection[UUID] = ()) -> Page:
    """Return the page of the list that the filter names, newest first; `kept`: letters that stay in their places."""
    parts = _parts(filters, now)
    matching = _newest([_after(part.letters, filters.after) for part in parts], filters.size + 1)
    staying = _staying(kept, matching, filters) if kept else []
    letters = sorted([*matching, *staying], key=_place, reverse=True)[: filters.size + 1]
    shown = letters[: filters.size]
    return Page(
        rows=with_subjects(shown),
        next=_cursor(shown[-1]) if len(letters) > filters.size else None,
        newest=_newest_place(shown, now) if shown else None,
        cut_short=any(part.is_cut for part in parts),
        searched=searched(filters),
        staying={letter.pk for letter in shown} & {letter.pk for letter in staying},
    )


def on_page(filters: LetterFilter, dead_letter_ids: Iterable[UUID]) -> Sequence[UUID]:
    """Return which of these letters would be on the page that the filter names, if they all matched it."""
    found = DeadLetter.objects.filter(pk__in=list(dead_letter_ids), superseded_by=None)
    return list(_after(found, filters.after).order_by(*ORDER).values_list("pk", flat=True)[: filters.size])


def _staying(kept: Collection[UUID], matching: Iterable[DeadLetter], filters: LetterFilter) -> Sequence[DeadLetter]:
    """Return the letters that are kept on a page, and that do not match."""
    others = set(kept) - {letter.pk for letter in matching}
    found = _after(DeadLetter.objects.filter(pk__in=others, superseded_by=None), filters.after)
    return _newest([found], filters.size + 1)


def newest(filters: LetterFilter, limit: int, *, now: datetime) -> Sequence[Row]:
    """Return the newest matching letters after the filter's place, without counting the others."""
    return with_subjects(_newest([_after(part, filters.after) for part in matching(filters, now)], limit))


def count(filters: LetterFilter, cap: int, *, now: datetime) -> int:
    """Return how many letters match, at most `cap` + 1."""
    return count_of(matching(filters, now), cap)


def all_matching(filters: LetterFilter, *, now: datetime) -> Sequence[QuerySet[DeadLetter]]:
    """Return all letters that match, in parts that do not overlap: none is left out for the cost of looking.

    Recovered ones are only among them when the filter asks for them. Raises BadFilter for a text that is looked for in
    payloads where not all of them can be looked through.
    """
    if filters.payload and is_cut_short(filters, now):
        raise BadFilter(f"Only the newest {payloads.SEARCHED:,} payloads can be looked through: narrow it down.")
    parts = [_filtered(part, filters) for part in _indexed(filters, now)]
    return parts if filters.status else [part.exclude(recovery_status=RecoveryStatus.RECOVERED) for part in parts]


def place_of(row: Row) -> Cursor:
    return _cursor(row.letter)


def _newest_place(shown: Sequence[DeadLetter], now: datetime) -> Cursor:
    """Return the place after which letters are news: letters of the future stay above it and hide none."""
    past = next((letter for letter in shown if letter.dead_lettered_at <= now + AHEAD), None)
    return Cursor(at=now, id=_LAST_ID) if past is None else _cursor(past)


def count_newer(filters: LetterFilter, seen: Cursor | None, *, now: datetime) -> int:
    """Return how many matching letters died after the newest one on the page, at most COUNT_CAP + 1."""
    newer = Q(dead_lettered_at__lte=now + AHEAD)
    if seen is not None:
        newer &= _newer_than(seen)
    return count_of([_looked_through(part.filter(newer), filters).letters for part in _indexed(filters, now)])


def sides(
    filters: LetterFilter, place: Cursor, *, now: datetime
) -> tuple[Sequence[QuerySet[DeadLetter]], Sequence[QuerySet[DeadLetter]]]:
    """Return the parts of a list that are newer than a place and those that are older, each from the place on.

    What no index finds is looked for in the NEAR letters on each side only.
    """
    indexed = _indexed(filters, now)
    oldest_first = tuple(name.removeprefix("-") for name in ORDER)
    newer = [part.filter(_newer_than(place), dead_lettered_at__gte=place.at) for part in indexed]
    older = [_after(part, place) for part in indexed]
    return [_near(part, filters, oldest_first) for part in newer], [_near(part, filters, ORDER) for part in older]


def _near(letters: QuerySet[DeadLetter], filters: LetterFilter, order: Sequence[str]) -> QuerySet[DeadLetter]:
    if not is_looked_through(filters):
        return _filtered(letters, filters).order_by(*order)
    near = letters.order_by(*order).values("dead_letter_id")[: payloads.SEARCHED if filters.payload else NEAR]
    return _filtered(DeadLetter.objects.filter(dead_letter_id__in=near), filters).order_by(*order)


def get(dead_letter_id: UUID) -> DeadLetter:
    """Return one letter, the survivor of a superseded one; raises NoSuchLetter.

    With `detail_text`, its failure's structure as JSON text, since a foreign writer's may nest deeper than Python
    parses, and `message_ids`, the ids that its message had in versions of its payload.
    """
    detail = Cast("failure_detail", TextField())
    ids = ArraySubquery(DeadLetterPayload.objects.filter(dead_letter=OuterRef("pk")).values("message_id"))
    survivor = RawSQL(_SURVIVOR, [dead_letter_id, MAX_SURVIVORS])  # noqa: S611 - a statement of this module
    found = _whole().filter(dead_letter_id=survivor, superseded_by=None)
    letter = found.annotate(detail_text=detail, message_ids=ids).first()
    if letter is None:
        raise NoSuchLetter(str(dead_letter_id))
    return letter


_SURVIVOR = """
    WITH RECURSIVE one(id, n) AS (
        SELECT %s::uuid, 0
        UNION ALL
        SELECT l.superseded_by, n + 1 FROM one JOIN wh_dead_letters l ON l.dead_letter_id = one.id
         WHERE l.superseded_by IS NOT NULL AND n < %s
    )
    SELECT id FROM one ORDER BY n DESC LIMIT 1
"""


def briefly(dead_letter_ids: Iterable[UUID]) -> Mapping[UUID, DeadLetter]:
    """Return what lists show of these letters, by id; one that was purged is missing."""
    columns = (*LIST_FIELDS, "stream_id")
    return DeadLetter.objects.filter(pk__in=list(dead_letter_ids)).only(*columns).in_bulk()


def states_of(dead_letter_ids: Iterable[UUID]) -> Mapping[tuple[int, int], int]:
    """Return how many of these letters there are by recovery status and disposition."""
    found = DeadLetter.objects.filter(pk__in=list(dead_letter_ids), superseded_by=None).order_by()
    counted = found.values_list("recovery_status", "operator_disposition").annotate(n=Count("pk"))
    return {(status, disposition): n for status, disposition, n in counted}


def failure_detail_of(letter: DeadLetter) -> str | None:
    """Return the latest failure's structure of a letter that `get` returned, as JSON text."""
    text: str | None = getattr(letter, "detail_text", None)
    return text


def _whole() -> QuerySet[DeadLetter]:
    """What the page of one letter reads: not the exact bytes, nor the row for its recovery."""
    return DeadLetter.objects.defer("envelope_raw", "source_row", "failure_detail")


def subjects_of(letter: DeadLetter) -> Sequence[DeadLetterSubject]:
    return list(letter.subjects.order_by("position")[:200])


def deaths_of(letter: DeadLetter) -> Sequence[DeadLetterDeath]:
    """Return the letter's deaths, the latest first."""
    return list(letter.death_rows.defer("failure_detail").order_by("-number")[:50])


def notes_of(letter: DeadLetter) -> Sequence[Note]:
    return list(letter.notes.order_by("-written_at", "-id")[:100])


def any_letter_exists() -> bool:
    return DeadLetter.objects.filter(superseded_by=None).exists()


def matching(filters: LetterFilter, now: datetime) -> Sequence[QuerySet[DeadLetter]]:
    """Return the matching letters in parts that do not overlap, each of which an index yields in order."""
    return [part.letters for part in _parts(filters, now)]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Letters that match; `is_cut`: older ones were not looked through."""

    letters: QuerySet[DeadLetter]
    is_cut: bool


def _parts(filters: LetterFilter, now: datetime) -> Sequence[_Part]:
    return [_looked_through(part, filters) for part in _indexed(filters, now)]


def _newest(parts: Sequence[QuerySet[DeadLetter]], limit: int) -> Sequence[DeadLetter]:
    tops = [part.order_by(*ORDER).only(*LIST_FIELDS)[:limit] for part in parts]
    return list(tops[0].union(*tops[1:], all=True).order_by(*ORDER)[:limit] if len(tops) > 1 else tops[0])


def row_of(dead_letter_id: UUID) -> Row:
    """Return one letter as the list shows it; raises NoSuchLetter."""
    found = with_subjects(list(DeadLetter.objects.filter(pk=dead_letter_id, superseded_by=None).only(*LIST_FIELDS)))
    if not found:
        raise NoSuchLetter(str(dead_letter_id))
    return found[0]


def count_of(parts: Sequence[QuerySet[DeadLetter]], cap: int = COUNT_CAP) -> int:
    """Return how many letters are in parts that do not overlap, at most `cap` + 1, by one statement."""
    first, *others = (part.order_by().values("pk") for part in parts)
    return (first.union(*others, all=True) if others else first)[: cap + 1].count()


def _looked_through(letters: QuerySet[DeadLetter], filters: LetterFilter) -> _Part:
    """Look through the newest SEARCHED of the letters for what no index finds; an id is found among all.

    From the last of them on: then an index yields the newest first, and a page is found without the others.
    """
    found = _filtered(letters, filters)
    if not is_looked_through(filters):
        return _Part(letters=found, is_cut=False)
    last = list(letters.order_by(*ORDER).only(*ORDER_FIELDS)[searched(filters) - 1 : searched(filters) + 1])
    if len(last) < 2:
        return _Part(letters=found, is_cut=False)
    place = _cursor(last[0])
    newest = Q(dead_letter_id=place.id) | _newer_than(place)
    return _Part(letters=found.filter(newest, dead_lettered_at__gte=place.at), is_cut=True)


def is_looked_through(filters: LetterFilter) -> bool:
    """Say whether the filter asks for what no index finds."""
    return bool(filters.payload) or (filters.exact_id is None and bool(filters.q or _unindexed(filters)))


def _filtered(letters: QuerySet[DeadLetter], filters: LetterFilter) -> QuerySet[DeadLetter]:
    """Filter the letters by what no index finds."""
    conditions = _unindexed(filters)
    if filters.payload:
        letters = letters.filter(dead_letter_id__in=payloads.ids_with(letters, filters.payload))
    if filters.exact_id is not None:
        conditions.append(_has_id(filters.exact_id))
    elif filters.q:
        conditions.append(Q(error_line__icontains=filters.q) | Q(message_type__icontains=filters.q))
    return letters.filter(*conditions)


def _has_id(wanted: UUID) -> Q:
    of_message = Q(source_id=wanted) | Q(original_id=wanted)
    return Q(dead_letter_id=wanted) | of_message | Q(stream_id=wanted)


def _unindexed(filters: LetterFilter) -> list[Q]:
    wanted = {
        "cause": filters.cause,
        "operator_disposition": filters.disposition_number,
        "generation": filters.generation,
        "destination": filters.destination,
        "perspective_name": filters.perspective,
    }
    conditions = [Q(**{name: value}) for name, value in wanted.items() if value not in ("", None)]
    return [*conditions, Q(owner=None) | Q(owner="")] if filters.is_unowned else conditions


def _indexed(filters: LetterFilter, now: datetime) -> Sequence[QuerySet[DeadLetter]]:
    letters = DeadLetter.objects.filter(superseded_by=None)
    since, until = filters.times(now)
    conditions = {
        "recovery_status": STATUSES.get(filters.status),
        "source_table": filters.source_table,
        "failure_reason": filters.reason_number,
        "stream_id": filters.stream_id,
        "error_fingerprint": filters.fingerprint or None,
        "dead_lettered_at__gte": since,
        "dead_lettered_at__lt": until,
    }
    letters = letters.filter(**{name: value for name, value in conditions.items() if value is not None})
    if filters.is_of_other_sources:
        letters = letters.exclude(source_table__in=list(SOURCES.values()))
    if filters.again:
        letters = letters.filter(deaths__gt=1)
    if filters.type:
        prefixed = letters.annotate(type_prefix=Left("message_type", TYPE_PREFIX))
        letters = prefixed.filter(type_prefix=filters.type[:TYPE_PREFIX])
        if len(filters.type) >= TYPE_PREFIX:  # only then: the planner would take two conditions for independent ones
            letters = letters.filter(message_type=filters.type)
    if filters.owner and not filters.is_unowned:
        letters = letters.annotate(owner_prefix=Left("owner", OWNER_PREFIX)).filter(owner_prefix=filters.owner)
    if filters.subject_pair:
        letters = letters.filter(dead_letter_id__in=_about(*filters.subject_pair))
    return [letters] if filters.group_id is None else _of_group(letters, filters.group_id)


def _of_group(letters: QuerySet[DeadLetter], group_id: UUID) -> Sequence[QuerySet[DeadLetter]]:
    """Return a group's letters by fingerprint; of the group that took its place where it was merged."""
    known = GroupFingerprint.objects.filter(Q(group=group_id) | Q(group__aliases__alias=group_id)).distinct()
    pairs = known.order_by("fingerprint", "version").values_list("fingerprint", "version")[:MAX_FINGERPRINTS]
    parts = [letters.filter(error_fingerprint=value, error_fingerprint_version=version) for value, version in pairs]
    return parts or [DeadLetter.objects.none()]


def _about(kind: str, identity: str) -> QuerySet[DeadLetterSubject, UUID]:
    """Return the ids of the letters about a subject; by its key for the index, and whole since keys may collide."""
    about = DeadLetterSubject.objects.filter(subject_key=subject_key(kind, identity), type=kind, id=identity)
    return about.values_list("dead_letter_id", flat=True)


def subject_key(kind: str, identity: str) -> UUID:
    """Return the key under which a subject is indexed and counted."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT dead_letter_subject_key(%s, %s)", [kind, identity])
        (key,) = cursor.fetchone()
        return UUID(str(key))


def is_cut_short(filters: LetterFilter, now: datetime) -> bool:
    """Say whether only the newest letters are looked through, of more."""
    return any(part.is_cut for part in _parts(filters, now))


def searched(filters: LetterFilter) -> int:
    """Return how many of the newest letters are looked through for what no index finds."""
    if filters.payload:
        return payloads.SEARCHED
    some = (filters.type, filters.reason, filters.status, filters.source, filters.again, filters.owner, filters.subject)
    return SEARCHED_OF_SOME if any(some) or filters.stream or filters.group or filters.fingerprint else SEARCHED


def _after(letters: QuerySet[DeadLetter], cursor: Cursor | None) -> QuerySet[DeadLetter]:
    if cursor is None:
        return letters
    later = Q(dead_lettered_at=cursor.at, dead_letter_id__lt=cursor.id) | Q(dead_lettered_at__lt=cursor.at)
    return letters.filter(later, dead_lettered_at__lte=cursor.at)


def _newer_than(cursor: Cursor) -> Q:
    return Q(dead_lettered_at=cursor.at, dead_letter_id__gt=cursor.id) | Q(dead_lettered_at__gt=cursor.at)


def _place(letter: DeadLetter) -> tuple[datetime, UUID]:
    return letter.dead_lettered_at, letter.dead_letter_id


def _cursor(letter: DeadLetter) -> Cursor:
    return Cursor(at=letter.dead_lettered_at, id=letter.dead_letter_id)
