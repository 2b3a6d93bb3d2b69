"""The places after which a page of a list begins."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from deadletters.words.errors import BadFilter

_COUNT = re.compile(r"[0-9]{1,18}")
_POSITION = re.compile(r"-?[0-9]{1,19}")
_TIME = "%Y%m%dT%H%M%S.%f"
UNREADABLE = "The page in the address cannot be read; start from the first page."


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The last row of a page that is ordered by time: its time and id."""

    at: datetime
    id: UUID

    def __str__(self) -> str:
        return f"{_written(self.at)}_{self.id.hex}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read what `str` wrote; raises BadFilter."""
        moment, _, identity = text.partition("_")
        return cls(at=_moment(moment), id=_identity(identity))


@dataclass(frozen=True, kw_only=True)
class CountCursor:
    """The last row of a page that is ordered by a count: its count and id."""

    count: int
    id: UUID

    def __str__(self) -> str:
        return f"{self.count}_{self.id.hex}"

    @classmethod
    def parse(cls, text: str) -> "CountCursor":
        """Read what `str` wrote; raises BadFilter."""
        count, _, identity = text.partition("_")
        if not _COUNT.fullmatch(count):
            raise BadFilter(UNREADABLE)
        return cls(count=int(count), id=_identity(identity))


@dataclass(frozen=True, kw_only=True)
class NumberedCursor:
    """The last row of a page that is ordered by a time, then by a number: both of them."""

    at: datetime
    position: int

    def __str__(self) -> str:
        return f"{_written(self.at)}_{self.position}"

    @classmethod
    def parse(cls, text: str) -> "NumberedCursor":
        """Read what `str` wrote; raises BadFilter."""
        moment, _, position = text.partition("_")
        if not _POSITION.fullmatch(position) or abs(int(position)) >= 2**63:
            raise BadFilter(UNREADABLE)
        return cls(at=_moment(moment), position=int(position))


@dataclass(frozen=True, kw_only=True)
class StreamCursor:
    """The last row of a page of streams: its queue and id."""

    queue: str
    id: UUID

    def __str__(self) -> str:
        return f"{self.id.hex}_{self.queue}"

    @classmethod
    def parse(cls, text: str) -> "StreamCursor":
        """Read what `str` wrote; raises BadFilter."""
        identity, _, queue = text.partition("_")
        return cls(queue=queue, id=_identity(identity))


@dataclass(frozen=True, kw_only=True)
class PlaceCursor:
    """The last row of a page that is in the order of a run: its place."""

    place: int

    def __str__(self) -> str:
        return str(self.place)

    @classmethod
    def parse(cls, text: str) -> "PlaceCursor":
        """Read what `str` wrote; raises BadFilter."""
        if not _POSITION.fullmatch(text) or abs(int(text)) >= 2**63:
            raise BadFilter(UNREADABLE)
        return cls(place=int(text))


def _written(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):{_TIME}}"


def _moment(text: str) -> datetime:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError as exc:
        raise BadFilter(UNREADABLE) from exc


def _identity(text: str) -> UUID:
    try:
        return UUID(hex=text)
    except ValueError as exc:
        raise BadFilter(UNREADABLE) from exc
