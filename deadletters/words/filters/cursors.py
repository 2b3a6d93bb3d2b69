"""The places after which a page of a list begins."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from deadletters.words.errors import BadFilter

_COUNT = re.compile(r"[0-9]{1,18}")
UNREADABLE = "The page in the address cannot be read; start from the first page."


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The last row of a page that is ordered by time: its time and id."""

    at: datetime
    id: UUID

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y%m%dT%H%M%S.%f}_{self.id.hex}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read what `str` wrote; raises BadFilter."""
        moment, _, identity = text.partition("_")
        try:
            at = datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
            return cls(at=at, id=UUID(hex=identity))
        except ValueError as exc:
            raise BadFilter(UNREADABLE) from exc


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
        try:
            if not _COUNT.fullmatch(count):
                raise BadFilter(UNREADABLE)
            return cls(count=int(count), id=UUID(hex=identity))
        except ValueError as exc:
            raise BadFilter(UNREADABLE) from exc
