"""The overview's numbers as they are written and linked."""

from collections.abc import Mapping, Sequence

from django import template

from deadletters.queries import trends
from deadletters.queries.letters import COUNT_CAP
from deadletters.queries.overview import AGES, ReasonLine, SourceLine
from deadletters.words.filters import OTHER_SOURCES, STATUSES, LetterFilter, reason_name

register = template.Library()

_NAMES = {
    "": "All",
    "inbox": "Inbox",
    "outbox": "Outbox",
    "perspectives": "Perspectives",
    "broker": "Broker",
    OTHER_SOURCES: "Others",
}
_COLUMNS = ("open", "again", "held", "recovering", "given_up")
_HEATS = (1_000, 100, 10, 1)


@register.filter
def up_to_cap(number: int) -> str:
    """Write a count that ends where counting does."""
    return f"{COUNT_CAP:,}+" if number > COUNT_CAP else f"{number:,}"


@register.filter
def line_name(line: SourceLine) -> str:
    """Return a source's name for people."""
    return _NAMES[line.name]


@register.filter
def cells(line: SourceLine) -> Sequence[Mapping[str, object]]:
    """Return a source's numbers, each with the query string of its list."""
    return [_source_cell(line, column) for column in _COLUMNS]


def _source_cell(line: SourceLine, column: str) -> Mapping[str, object]:
    if column == "again":
        filters = LetterFilter(source=line.name, status="open", again="yes")
        return {"key": column, "number": line.again, "query": filters.query(), "is_capped": True}
    number = line.by_status.get(STATUSES[column], 0)
    return {"key": column, "number": number, "query": LetterFilter(source=line.name, status=column).query()}


@register.filter
def age_cells(line: ReasonLine) -> Sequence[Mapping[str, object]]:
    """Return a reason's numbers by age, each with the query string of its list and how much it is, from 0 to 4."""
    reason = "" if line.reason is None else reason_name(line.reason)
    return [
        {
            "number": number,
            "is_exact": not (reason or age),
            "query": LetterFilter(status="open", reason=reason, since=age).query(),
            "heat": next((4 - place for place, least in enumerate(_HEATS) if number >= least), 0),
        }
        for age, number in zip((*AGES, ""), line.numbers, strict=True)
    ]


@register.simple_tag
def ages() -> Sequence[str]:
    """Return the ages of the matrix for people."""
    return [age.replace("h", " h").replace("d", " d") for age in AGES]


@register.simple_tag
def spans() -> Sequence[trends.Span]:
    """Return how far back the chart of deaths may go."""
    return tuple(trends.SPANS.values())
