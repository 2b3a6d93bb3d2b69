"""Values that a search may name, out of small tables and the newest rows; never a whole table of letters."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from django.db import connection

from deadletters.models import DeadLetter, FailureGroup, Generation, SubjectCount
from deadletters.words.filters import SOURCES
from queues.models import Destination, PerspectiveSubscription
from queues.words.redaction import mask_text

SAMPLED = 1_000
"""Newest rows of a table that are looked at."""
MAX_SKIPS = 500
"""Values that are looked at of a column with an index, in their order."""
MAX_VALUES = 12
"""Values that are suggested at once."""
MAX_VALUE = 200
"""Characters from which on a value is not suggested: an index may have cut it there."""

# Each value is looked up behind the one before it, by an index that begins with it.
_SKIP = """
WITH RECURSIVE found(value, n) AS (
    (SELECT {value}, 1 FROM wh_dead_letters l WHERE l.superseded_by IS NULL AND {condition} ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT {value} FROM wh_dead_letters l
             WHERE l.superseded_by IS NULL AND {condition} AND {value} > f.value ORDER BY 1 LIMIT 1), f.n + 1
      FROM found f WHERE f.value IS NOT NULL AND f.n < %s
)
SELECT value FROM found WHERE value IS NOT NULL
"""

NEWEST = ("-dead_lettered_at", "-dead_letter_id")


def values_of(key: str, typed: str) -> Sequence[str]:
    """Return values of a filter that hold what is typed, those that begin with it first; none that holds a secret."""
    read = _READS.get(key)
    return matching(read(), typed) if read else []


def matching(values: Iterable[str | None], typed: str) -> Sequence[str]:
    """Return which values hold what is typed, each once: those that begin with it first, else as they come."""
    wanted = typed.casefold()
    found = [value for value in dict.fromkeys(values) if value and wanted in value.casefold() and _is_fit(value)]
    return sorted(found, key=lambda value: not value.casefold().startswith(wanted))[:MAX_VALUES]


def _is_fit(value: str) -> bool:
    return len(value) < MAX_VALUE and value.isprintable() and mask_text(value) == value


def _types() -> Iterable[str | None]:
    return _by_skipping("left(l.message_type, 200)", "true")


def _owners() -> Iterable[str | None]:
    owned = FailureGroup.objects.exclude(owner=None).order_by("-last_seen_at", "-group_id")
    of_groups = owned.values_list("owner", flat=True)[:SAMPLED]
    return [*of_groups, *_by_skipping("left(l.owner, 200)", "l.owner IS NOT NULL")]


def _by_skipping(value: str, condition: str) -> Iterable[str | None]:
    """Return the values of an indexed expression in order, at most MAX_SKIPS, with one look into the index for each."""
    with connection.cursor() as cursor:
        cursor.execute(_SKIP.format(value=value, condition=condition), [MAX_SKIPS])
        return [found for (found,) in cursor.fetchall()]


def _builds() -> Iterable[str | None]:
    return Generation.objects.order_by("-first_seen_at").values_list("build", flat=True)[:SAMPLED]


def _destinations() -> Iterable[str | None]:
    of_letters = DeadLetter.objects.filter(superseded_by=None).order_by(*NEWEST)
    return [
        *Destination.objects.order_by("name").values_list("name", flat=True)[:SAMPLED],
        *of_letters.values_list("destination", flat=True)[:SAMPLED],
    ]


def _perspectives() -> Iterable[str | None]:
    subscribed = PerspectiveSubscription.objects.order_by("perspective_name")
    return subscribed.values_list("perspective_name", flat=True)[:SAMPLED]


def _sources() -> Iterable[str | None]:
    """Return what other programs call their sources, as the newest letters name them."""
    newest = DeadLetter.objects.filter(superseded_by=None).order_by(*NEWEST)
    return (name for name in newest.values_list("source_table", flat=True)[:SAMPLED] if name not in SOURCES.values())


def _subject_types() -> Iterable[str | None]:
    most = SubjectCount.objects.filter(recovery_status=0, n__gt=0).order_by("recovery_status", "-n")
    return [f"{kind}:" for kind in most.values_list("type", flat=True)[:SAMPLED]]


_READS: Mapping[str, Callable[[], Iterable[str | None]]] = {
    "type": _types,
    "owner": _owners,
    "generation": _builds,
    "destination": _destinations,
    "perspective": _perspectives,
    "source": _sources,
    "subject": _subject_types,
}
