"""What the filters of all lists have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self
from urllib.parse import urlencode
from uuid import UUID

from deadletters.words.errors import BadFilter

SIZES = (25, 50, 100)
MAX_TEXT = 200
"""Characters of a value whose name is not in `LENGTHS`."""

NOBODY = "-"
"""The owner of what nobody owns."""

NOTHING_NAMED: Mapping[str, str] = {}

LENGTHS = {"type": 500, "destination": 500, "perspective": 500, "subject": 1001}


@dataclass(frozen=True, kw_only=True)
class ListFilter(ABC):
    """What a list shows. A text that is empty = not filtered by it; values are kept as they were written."""

    after: object = None
    """The place after which the page begins, as the kind of filter reads and writes it."""
    size: int = 50

    NOUN: ClassVar[str]
    SAID: ClassVar[Mapping[str, str]]
    """Name to phrase with {} for the value, in the order in which the filters are said."""
    SHOWN: ClassVar[Mapping[str, Callable[[str], str]]] = {}
    """Name to what makes a value readable."""
    SYNONYMS: ClassVar[Mapping[str, str]] = {}
    """What pages call a filter, for its name."""

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Self:
        """Read a query string; raises BadFilter for a name or a value that is not known, or that is given twice."""
        known = {field.name for field in fields(cls)}
        if twice := [name for name, same in cls.SYNONYMS.items() if {name, same} <= set(parameters)]:
            raise BadFilter(f"“{twice[0]}” and “{cls.SYNONYMS[twice[0]]}” are the same filter; once is enough.")
        parameters = {cls.SYNONYMS.get(name, name): value for name, value in parameters.items()}
        unknown = sorted(set(parameters) - known)
        if unknown:
            raise BadFilter(f"There is no filter “{unknown[0][:40]}”; known are {', '.join(sorted(known))}.")
        values = {name: value.strip() for name, value in parameters.items() if value.strip()}
        for name, value in values.items():
            _check_text(name, value)
        after, size = values.pop("after", ""), values.pop("size", "50")
        if size not in map(str, SIZES):
            raise BadFilter(f"A page has {', '.join(map(str, SIZES))} rows.")
        return cls(**values, after=cls.cursor(after, values) if after else None, size=int(size))

    @classmethod
    @abstractmethod
    def cursor(cls, text: str, values: Mapping[str, str]) -> object:
        """Read the place after which the page begins, in a list that `values` filter; raises BadFilter."""

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the filters in force as (name, value), in the order in which they are said."""
        for name in self.SAID:
            if getattr(self, name):
                yield name, getattr(self, name)

    @property
    def is_empty(self) -> bool:
        return not any(True for _ in self.parts())

    def phrases(self, names: Mapping[str, str] = NOTHING_NAMED) -> Iterator[tuple[str, str]]:
        """Yield the filters in force as (name, what it says in English); `names`: what ids among them stand for."""
        for name, value in self.parts():
            yield name, self.SAID[name].format(names.get(name) or self.SHOWN.get(name, str)(value))

    def words(self, names: Mapping[str, str] = NOTHING_NAMED) -> str:
        """Say the filter in English."""
        phrases = [phrase for _, phrase in self.phrases(names)]
        return f"{self.NOUN} {', '.join(phrases)}" if phrases else f"All {self.NOUN[0].lower()}{self.NOUN[1:]}"

    def query(self, **changes: str) -> str:
        """Return the query string with changes, the same for the same filter.

        A page is never carried over, an empty value removes a filter.
        """
        values = dict(self.parts()) | self.layout() | changes
        names = [*(name for name in self.SAID if name in values), *(name for name in values if name not in self.SAID)]
        return urlencode({name: values[name] for name in names if values[name]})

    def layout(self) -> dict[str, str]:
        """Return what else the query string holds: how the list is shown, where that is not as usual."""
        return {} if self.size == 50 else {"size": str(self.size)}


def _check_text(name: str, value: str) -> None:
    if len(value) > LENGTHS.get(name, MAX_TEXT) or "\x00" in value or not _is_encodable(value):
        raise BadFilter(f"The filter “{name}” is too long or holds a NUL or half a character.")


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_one_of(name: str, value: str, known: Mapping[str, object]) -> None:
    """Raise BadFilter for a value that is given and not known."""
    if value and value not in known:
        raise BadFilter(f"“{value}” is no {name}; known are {', '.join(known)}.")


def uuid_of(text: str) -> UUID | None:
    """Return the id that a whole text is, if it is one."""
    try:
        return UUID(text) if len(text) in (32, 36) else None
    except ValueError:
        return None


def spaced(name: str) -> str:
    return name.replace("_", " ")


def owner_words(owner: str) -> str:
    return "nobody" if owner == NOBODY else owner
