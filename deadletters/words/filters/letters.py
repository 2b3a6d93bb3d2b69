"""The filter of the list of dead letters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from deadletters.words.errors import BadFilter
from deadletters.words.filters.cursors import Cursor
from deadletters.words.filters.listfilter import (
    NOBODY,
    ListFilter,
    check_one_of,
    owner_words,
    spaced,
    uuid_of,
)
from deadletters.words.filters.times import moment_of, time_words
from queues.words.outcomes import Cause, FailureReason

STATUSES = {"open": 0, "recovering": 1, "held": 2, "recovered": 3, "given_up": 4}
SOURCES = {
    "inbox": "wh_inbox",
    "outbox": "wh_outbox",
    "perspectives": "wh_perspective_events",
    "broker": "broker",
}
OTHER_SOURCES = "other"
"""The source of letters that come from none of `SOURCES`: another program may have written any."""
AGAIN = {"yes": "that died again after a recovery"}
DISPOSITIONS = {"none": 0, "retry_now": 1, "hold": 2, "give_up": 3}
CAUSES = {cause.value: cause for cause in Cause}

MIN_PAYLOAD = 3
"""Characters of a text that is looked for in payloads."""

_DECIDED = {
    "none": "not decided about by a person",
    "retry_now": "to be retried now",
    "hold": "held by a person",
    "give_up": "given up by a person",
}
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class LetterFilter(ListFilter):
    """Which dead letters the list shows.

    A subject is written type:id and ends its type at the first colon: an id may hold colons, a type may not.
    A source is one of SOURCES, "other", or what another program calls its own.
    """

    after: Cursor | None = None
    type: str = ""
    reason: str = ""
    cause: str = ""
    status: str = ""
    again: str = ""
    disposition: str = ""
    owner: str = ""
    source: str = ""
    destination: str = ""
    perspective: str = ""
    stream: str = ""
    subject: str = ""
    group: str = ""
    fingerprint: str = ""
    generation: str = ""
    payload: str = ""
    q: str = ""
    since: str = ""
    until: str = ""

    NOUN = "Dead letters"
    SYNONYMS = {"state": "status", "build": "generation", "decision": "disposition"}
    SAID = {
        "status": "in state {}",
        "again": "{}",
        "disposition": "{}",
        "owner": "owned by {}",
        "type": "type {}",
        "reason": "reason {}",
        "cause": "cause {}",
        "source": "from the {}",
        "destination": "to {}",
        "perspective": "of perspective {}",
        "stream": "of stream {}",
        "subject": "about {}",
        "group": "of group {}",
        "fingerprint": "with fingerprint {}",
        "generation": "that died on build {}",
        "payload": "with “{}” in their payload",
        "q": "with “{}” in them",
        "since": "since {}",
        "until": "until {}",
    }
    SHOWN = {
        "status": spaced,
        "again": AGAIN.__getitem__,
        "disposition": _DECIDED.__getitem__,
        "owner": owner_words,
        "reason": spaced,
        "cause": spaced,
        "source": lambda source: "other sources" if source == OTHER_SOURCES else source,
        "since": time_words,
        "until": time_words,
    }

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> Cursor:
        return Cursor.parse(text)

    def __post_init__(self) -> None:
        check_one_of("status", self.status, STATUSES)
        check_one_of("again", self.again, AGAIN)
        if self.source not in SOURCES and self.source in SOURCES.values():
            raise BadFilter(f"“{self.source}” is called {_named(self.source)} here.")
        check_one_of("cause", self.cause, CAUSES)
        check_one_of("disposition", self.disposition, DISPOSITIONS)
        if self.reason and self.reason_number is None:
            raise BadFilter(
                f"“{self.reason}” is no failure reason; try {_reason_name(FailureReason.VALIDATION_ERROR)}."
            )
        if self.subject and ":" not in self.subject:
            raise BadFilter("A subject is written type:id, for example order:42.")
        for name, identity in (("group", self.group_id), ("stream", self.stream_id)):
            if getattr(self, name) and identity is None:
                raise BadFilter(f"A {name} is named by its id, 32 hexadecimal digits with or without hyphens.")
        if self.fingerprint and not _FINGERPRINT.fullmatch(self.fingerprint):
            raise BadFilter("A fingerprint has 16 characters: digits and a to f.")
        if self.payload and len(self.payload) < MIN_PAYLOAD:
            raise BadFilter(f"What is looked for in payloads has at least {MIN_PAYLOAD} characters.")
        for name in ("since", "until"):
            moment_of(name, getattr(self, name), datetime(2000, 1, 1, tzinfo=UTC))

    @property
    def reason_number(self) -> int | None:
        """The number of the reason, which is written by its name where it has one."""
        names = {_reason_name(reason): int(reason) for reason in FailureReason}
        is_unnamed = _NUMBER.fullmatch(self.reason) and reason_name(int(self.reason)) == self.reason
        return int(self.reason) if is_unnamed else names.get(self.reason)

    @property
    def is_of_other_sources(self) -> bool:
        return self.source == OTHER_SOURCES

    @property
    def source_table(self) -> str | None:
        """The source of the letters, as they name it; None = of any, or of all others than the known ones."""
        return None if self.is_of_other_sources else SOURCES.get(self.source, self.source) or None

    @property
    def disposition_number(self) -> int | None:
        return DISPOSITIONS.get(self.disposition)

    @property
    def is_unowned(self) -> bool:
        """Whether the filter asks for what nobody owns; `owner` is no name then."""
        return self.owner == NOBODY

    @property
    def subject_pair(self) -> tuple[str, str] | None:
        kind, colon, identity = self.subject.partition(":")
        return (kind, identity) if colon else None

    @property
    def group_id(self) -> UUID | None:
        return uuid_of(self.group)

    @property
    def stream_id(self) -> UUID | None:
        return uuid_of(self.stream)

    @property
    def exact_id(self) -> UUID | None:
        """The id that the text is, if it is one."""
        return uuid_of(self.q)

    def times(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return since and until as times; "24h" counts back from `now`."""
        return moment_of("since", self.since, now), moment_of("until", self.until, now)


def _named(source_table: str) -> str:
    return next(name for name, table in SOURCES.items() if table == source_table)


def reason_name(number: int) -> str:
    """Return a failure reason's name as filters write it; an unknown number stays a number."""
    try:
        return _reason_name(FailureReason(number))
    except ValueError:
        return str(number)


def _reason_name(reason: FailureReason) -> str:
    return reason.name.lower()
