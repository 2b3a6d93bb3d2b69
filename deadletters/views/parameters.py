"""What comes in an address or a form, read or refused."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponseBase, QueryDict

from deadletters import triage
from deadletters.views.errors import not_understood
from deadletters.words.errors import BadChange, BadFilter
from deadletters.words.filters.listfilter import ListFilter

Filter = TypeVar("Filter", bound=ListFilter)

MOMENTS = ("quiet_until",)
COUNTS = ("quiet_until_count",)
_MINUTES = "%Y-%m-%dT%H:%M"
_NO_TIME = "must be a time with its zone, such as 2026-01-31T12:00:00+00:00"


@dataclass(frozen=True, kw_only=True)
class Form:
    """A triage form as it is shown: texts by field, what is wrong with one, and what others wrote meanwhile."""

    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


P = ParamSpec("P")
Page = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


Check = Callable[[str], str]
"""Says what is wrong with a text; empty where nothing is."""


def takes(*names: str, **checked: Check) -> Callable[[Page[P]], Page[P]]:
    """Answer 400 with the reason to an address with other parameters than these, or with one of them twice.

    checked: parameters whose values are looked at too.
    """
    known = (*names, *checked)

    def gate(view: Page[P]) -> Page[P]:
        @wraps(view)
        def read(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if wrong := _wrong(request, known) or _wrong_value(request, checked):
                return not_understood(request, wrong)
            return view(request, *args, **kwargs)

        return read

    return gate


def among(values: Iterable[str]) -> Check:
    """Return the check of a parameter that is one of a few words."""
    known = tuple(values)
    return lambda given: "" if given in known else f"is “{given[:40]}”; known are {', '.join(known)}"


def time_with_zone(given: str) -> str:
    """Check a parameter that is a time as the pages write it, or empty."""
    if not given:
        return ""
    try:
        moment = datetime.fromisoformat(given)
        return "" if moment.tzinfo and moment.astimezone(UTC) else _NO_TIME
    except (ValueError, OverflowError):
        return _NO_TIME


def _wrong(request: HttpRequest, names: Sequence[str]) -> str:
    """Say what of an address is not understood; empty where all is."""
    if unknown := sorted(set(request.GET) - set(names)):
        known = f"known are {', '.join(sorted(names))}" if names else "this page has none"
        return f"There is no parameter “{unknown[0][:40]}”; {known}."
    twice = next((name for name, values in request.GET.lists() if len(values) > 1), None)
    return f"The parameter “{twice}” is given more than once; once is enough." if twice else ""


def _wrong_value(request: HttpRequest, checked: Mapping[str, Check]) -> str:
    given = ((name, check(request.GET[name])) for name, check in checked.items() if name in request.GET)
    return next((f"The parameter “{name}” {problem}." for name, problem in given if problem), "")


def filter_of(request: HttpRequest, kind: type[Filter]) -> Filter:
    """Read a filter from the address; raises BadFilter, also for one that is given twice."""
    filter_once(request)
    return kind.parse(request.GET.dict())


def filter_once(request: HttpRequest) -> None:
    """Raise BadFilter where an address gives one twice."""
    for name, values in request.GET.lists():
        if len(values) > 1:
            raise BadFilter(f"The filter “{name[:40]}” is given {len(values)} times; once is enough.")


def form_of(row: object, fields: Sequence[str]) -> Form:
    """Return the form that a row fills."""
    return Form(values=_texts(row, fields))


def refused_form(request: HttpRequest, row: object, fields: Sequence[str], *, wrong: BadChange | None = None) -> Form:
    """Return the form as it was sent: with what is wrong, or where nothing is, with what others wrote meanwhile."""
    present = _texts(row, fields)
    typed = {name: request.POST.get(name, present[name]) for name in fields}
    theirs = {} if wrong else {name: text or "–" for name, text in present.items() if text != typed[name]}
    errors = {wrong.field: str(wrong)} if wrong else {}
    return Form(values=typed, errors=errors, theirs=theirs, reason=request.POST.get("reason", ""))


def changes_of(request: HttpRequest, row: object, fields: Sequence[str]) -> Mapping[str, object]:
    """Return the fields whose text was changed, as their types; raises BadChange for a text that is not one."""
    present = _texts(row, fields)
    typed = {name: request.POST.get(name, text).strip() for name, text in present.items()}
    return {name: read(name, text) for name, text in typed.items() if text != present[name]}


def reason_of(request: HttpRequest) -> str:
    """Return the reason that a form gives, as much of it as is kept."""
    return reason_in(request.POST)


def reason_in(typed: QueryDict) -> str:
    """Return the reason in what a form gave."""
    reason: str = typed.get("reason", "")
    return reason.strip()[: triage.MAX_NOTE]


def _texts(row: object, fields: Sequence[str]) -> dict[str, str]:
    return {name: _text(getattr(row, name)) for name in fields}


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):{_MINUTES}}"
    return "" if value is None else str(value)


def read(name: str, text: str) -> object:
    """Read the text of a triage column as its type; raises BadChange for one that is not one."""
    if name in MOMENTS:
        return moment_of(name, text)
    if name in COUNTS:
        return _count(name, text)
    return text


def moment_of(name: str, text: str) -> datetime | None:
    """Read a time, in UTC where it names no zone; raises BadChange."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadChange(name, "must be a date and a time, such as 2026-01-31T12:00, in UTC") from exc


def _count(name: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise BadChange(name, "must be a whole number")
    return int(text)
