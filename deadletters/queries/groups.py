"""Reads of one failure group, and of some by their ids."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Left

from deadletters.models import (
    DeadLetter,
    FailureGroup,
    GroupAlias,
    GroupFingerprint,
    Note,
)
from deadletters.queries import counts
from deadletters.queries.counts import Fingerprint
from deadletters.words.errors import NoSuchGroup

NOTE_CHARACTERS = 120
MAX_FINGERPRINTS = 50


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
    newest = Note.objects.filter(group=OuterRef("pk")).order_by("-written_at", "-id")
    said = Subquery(newest.values(said=Left(F("text"), NOTE_CHARACTERS))[:1])
    return list(FailureGroup.objects.filter(pk__in=list(group_ids)).annotate(newest_note=said))
