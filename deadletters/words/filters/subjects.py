"""The filter of the list of subjects."""

from collections.abc import Mapping
from dataclasses import dataclass

from deadletters.words.filters.cursors import CountCursor
from deadletters.words.filters.listfilter import ListFilter


@dataclass(frozen=True, kw_only=True)
class SubjectFilter(ListFilter):
    """Which subjects the list shows, those with most letters first: of a type, with ids that begin with `q`."""

    after: CountCursor | None = None
    type: str = ""
    q: str = ""

    NOUN = "Subjects"
    SAID = {"type": "of type {}", "q": "whose ids begin with “{}”"}

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> CountCursor:
        return CountCursor.parse(text)
