"""The newest letters of a group: what they are about, where they were to go, on which builds they died, and what became
of those that were recovered one by one. One statement, however many letters a group has.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from deadletters.models import DeadLetter, DeadLetterSubject
from deadletters.queries.letterrows import LIST_FIELDS, Row

SAMPLE = 200
"""How many of a group's newest letters are looked at."""
MAX_FINGERPRINTS = 50
MAX_SUBJECTS = 20
"""Subjects of one letter that are read."""
SHOWN = 10
"""Values of a kind that are named."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many of the letters have a value."""

    value: str
    n: int


@dataclass(frozen=True, kw_only=True)
class SubjectTally:
    """How many of the letters are about a subject."""

    type: str
    id: str
    n: int


@dataclass(frozen=True, kw_only=True)
class Single:
    """A letter that a person sent by itself: what came of it, None = not known yet."""

    actor: str
    sent_at: datetime
    verdict: str | None


@dataclass(frozen=True, kw_only=True)
class Recent:
    """The newest letters, newest first, and what they have in common, the most frequent first."""

    rows: Sequence[Row]
    streams: Sequence[Tally]
    more_streams: int
    destinations: Sequence[Tally]
    builds: Sequence[Tally]
    subjects: Sequence[SubjectTally]
    singles: Sequence[Single]

    @property
    def sampled(self) -> int:
        return len(self.rows)

    @property
    def is_cut(self) -> bool:
        return len(self.rows) >= SAMPLE

    @property
    def n_streams(self) -> int:
        return len(self.streams) + self.more_streams


_COLUMNS = (*LIST_FIELDS, "stream_id", "generation")

_RECENT = """
SELECT n.*,
       (SELECT jsonb_agg(jsonb_build_array(s.type, s.id) ORDER BY s.position)::text
          FROM (SELECT b.type, b.id, b.position FROM dead_letter_subjects b
                 WHERE b.dead_letter_id = n.dead_letter_id ORDER BY b.position LIMIT %(subjects)s) s) AS about,
       (SELECT count(*) FROM dead_letter_subjects b WHERE b.dead_letter_id = n.dead_letter_id) AS about_n,
       (SELECT jsonb_agg(jsonb_build_array(d.recovery_actor, d.recovery_sent_at, d.verdict))::text
          FROM (SELECT e.recovery_actor, e.recovery_sent_at, e.verdict FROM dead_letter_deaths e
                 WHERE e.dead_letter_id = n.dead_letter_id AND e.recovery_sent_at IS NOT NULL
                   AND e.recovery_item_id IS NULL ORDER BY e.number DESC LIMIT 5) d) AS singles
  FROM (SELECT l.*
          FROM (SELECT f.fingerprint, f.version FROM group_fingerprints f WHERE f.group_id = %(group)s
                 ORDER BY f.version DESC, f.fingerprint LIMIT %(fingerprints)s) f
         CROSS JOIN LATERAL (
               SELECT {columns} FROM wh_dead_letters b
                WHERE b.error_fingerprint = f.fingerprint AND b.error_fingerprint_version = f.version
                  AND b.superseded_by IS NULL
                ORDER BY b.dead_lettered_at DESC, b.dead_letter_id DESC LIMIT %(sample)s) l
         ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT %(sample)s) n
 ORDER BY n.dead_lettered_at DESC, n.dead_letter_id DESC
""".format(columns=", ".join(f"b.{column}" for column in _COLUMNS))  # noqa: S608 - our own columns


def of_group(group_id: UUID) -> Recent:
    """Return the newest letters of a group."""
    limits = {"subjects": MAX_SUBJECTS, "fingerprints": MAX_FINGERPRINTS, "sample": SAMPLE}
    found: Sequence[Any] = list(DeadLetter.objects.raw(_RECENT, {"group": group_id, **limits}))
    about = {letter.pk: json.loads(letter.about or "[]") for letter in found}
    streams = Counter(str(letter.stream_id) for letter in found if letter.stream_id)
    return Recent(
        rows=[_row(letter, about[letter.pk]) for letter in found],
        streams=_most(streams),
        more_streams=max(len(streams) - SHOWN, 0),
        destinations=_most(Counter(_goes_to(letter) for letter in found if _goes_to(letter))),
        builds=_most(Counter(letter.generation for letter in found if letter.generation)),
        subjects=_subjects(about),
        singles=[single for letter in found for single in _singles(letter.singles)],
    )


def _row(letter: Any, about: Sequence[Sequence[str]]) -> Row:
    first = DeadLetterSubject(type=about[0][0], id=about[0][1]) if about else None
    return Row(letter=letter, subject=first, more_subjects=max(letter.about_n - 1, 0))


def _goes_to(letter: DeadLetter) -> str:
    return letter.perspective_name or letter.destination or ""


def _most(counted: Counter[str]) -> Sequence[Tally]:
    return [Tally(value=value, n=n) for value, n in counted.most_common(SHOWN)]


def _subjects(about: Mapping[UUID, Iterable[Sequence[str]]]) -> Sequence[SubjectTally]:
    counted = Counter(pair for found in about.values() for pair in {(kind, identity) for kind, identity in found})
    return [SubjectTally(type=kind, id=identity, n=n) for (kind, identity), n in counted.most_common(SHOWN)]


def _singles(text: str | None) -> Sequence[Single]:
    return [
        Single(actor=actor or "", sent_at=datetime.fromisoformat(sent_at), verdict=verdict)
        for actor, sent_at, verdict in json.loads(text or "[]")
    ]
