"""The filter of the list: read from a query string, said back in words and as a query string."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from deadletters.words.errors import BadFilter
from queues.words.outcomes import FailureReason

STATUSES = {"open": 0, "recovering": 1, "held": 2, "recovered": 3, "given_up": 4}
SOURCES = {
    "inbox": "wh_inbox",
    "outbox": "wh_outbox",
    "perspectives": "wh_perspective_events",
    "broker": "broker",
}
SIZES = (25, 50, 100)
MAX_TEXT = 200

_AGO = re.compile(r"(\d{1,4})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The place after which a page begins: the last row's time and id."""

    at: datetime
    id: UUID

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y%m%dT%H%M%S.%f}_{self.id.hex}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read what `str` wrote; raises BadFilter."""
        moment, _, letter = text.partition("_")
        try:
            at = datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
            return cls(at=at, id=UUID(hex=letter))
        except ValueError as exc:
            raise BadFilter("The page in the address cannot be read; start from the first page.") from exc


@dataclass(frozen=True, kw_only=True)
class LetterFilter:
    """What the list shows. Empty text and None = not filtered by it; `given` keeps times as they were written."""

    type: str = ""
    reason: str = ""
    status: str = ""
    source: str = ""
    subject: str = ""
    q: str = ""
    since: str = ""
    until: str = ""
    after: Cursor | None = None
    size: int = 50

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> "LetterFilter":
        """Read a query string; raises BadFilter for a name or a value that is not known."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(parameters) - known)
        if unknown:
            raise BadFilter(f"There is no filter “{unknown[0][:40]}”; known are {', '.join(sorted(known))}.")
        values = {name: value.strip() for name, value in parameters.items() if value.strip()}
        for name, value in values.items():
            if len(value) > (500 if name == "type" else MAX_TEXT) or "\x00" in value:
                raise BadFilter(f"The filter “{name}” is too long or holds a NUL.")
        after, size = values.pop("after", ""), values.pop("size", "50")
        if size not in map(str, SIZES):
            raise BadFilter(f"A page has {', '.join(map(str, SIZES))} rows.")
        return cls(**values, after=Cursor.parse(after) if after else None, size=int(size))

    def __post_init__(self) -> None:
        _one_of("status", self.status, STATUSES)
        _one_of("source", self.source, SOURCES)
        if self.reason and self.reason_number is None:
            raise BadFilter(
                f"“{self.reason}” is no failure reason; try {_reason_name(FailureReason.VALIDATION_ERROR)}."
            )
        if self.subject and ":" not in self.subject:
            raise BadFilter("A subject is written type:id, for example order:42.")
        for name in ("since", "until"):
            _moment(name, getattr(self, name), datetime(2000, 1, 1, tzinfo=UTC))

    @property
    def reason_number(self) -> int | None:
        names = {_reason_name(reason): int(reason) for reason in FailureReason}
        return names.get(self.reason)

    @property
    def subject_pair(self) -> tuple[str, str] | None:
        kind, colon, identity = self.subject.partition(":")
        return (kind, identity) if colon else None

    @property
    def exact_id(self) -> UUID | None:
        """The id that the text is, if it is one."""
        try:
            return UUID(self.q) if len(self.q) in (32, 36) else None
        except ValueError:
            return None

    def times(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return since and until as times; "24h" counts back from `now`."""
        return _moment("since", self.since, now), _moment("until", self.until, now)

    @property
    def is_empty(self) -> bool:
        return not any(True for _ in self.parts())

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the filters in force as (name, value), in the order in which they are said."""
        for name in ("status", "type", "reason", "source", "subject", "q", "since", "until"):
            if getattr(self, name):
                yield name, getattr(self, name)

    def words(self) -> str:
        """Say the filter in English."""
        said = {
            "status": "in state {}",
            "type": "type {}",
            "reason": "reason {}",
            "source": "from the {}",
            "subject": "about {}",
            "q": "with “{}” in them",
            "since": "since {}",
            "until": "until {}",
        }
        shown = {"status": _spaced, "reason": _spaced, "since": _time_words, "until": _time_words}
        phrases = [said[name].format(shown.get(name, str)(value)) for name, value in self.parts()]
        return "Dead letters " + ", ".join(phrases) if phrases else "All dead letters"

    def query(self, **changes: str) -> str:
        """Return the query string with changes; a page is never carried over, an empty value removes a filter."""
        values = dict(self.parts()) | ({} if self.size == 50 else {"size": str(self.size)}) | changes
        return urlencode({name: value for name, value in values.items() if value})


def reason_name(number: int) -> str:
    """Return a failure reason's name as filters write it; an unknown number stays a number."""
    try:
        return _reason_name(FailureReason(number))
    except ValueError:
        return str(number)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _time_words(text: str) -> str:
    """Say a time of a filter in words; one without a zone is in UTC."""
    ago = _AGO.fullmatch(text)
    if ago is None:
        return text if datetime.fromisoformat(text).tzinfo else f"{text} UTC"
    count, unit = int(ago[1]), _UNITS[ago[2]]
    return f"{count} {unit if count != 1 else unit[:-1]} ago"


def _reason_name(reason: FailureReason) -> str:
    return reason.name.lower()


def _one_of(name: str, value: str, known: Mapping[str, object]) -> None:
    if value and value not in known:
        raise BadFilter(f"“{value}” is no {name}; known are {', '.join(known)}.")


def _moment(name: str, text: str, now: datetime) -> datetime | None:
    if not text:
        return None
    ago = _AGO.fullmatch(text)
    if ago:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadFilter(f"“{text}” is no time for “{name}”; write 24h, 7d or 2026-01-31T12:00.") from exc
