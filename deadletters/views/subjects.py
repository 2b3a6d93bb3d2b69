"""What dead letters are about: the subjects by type, and one subject."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django_htmx.http import push_url

from deadletters.models import RecoveryStatus
from deadletters.queries import about, regions, subjects, totals
from deadletters.views import shell
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import filter_of, takes
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import SIZES, Cursor, LetterFilter, SubjectFilter

MISSING = "deadletters/subjects/missing.html"
MAX_NAME = 1_000
"""Characters of a subject's type and of its id."""


@needs(access.VIEW)
@require_safe
def subject_list(request: HttpRequest) -> HttpResponse:
    """Show each type's first subjects, or a page of those that the filter names; 400 when it is not understood."""
    template = "_results.html" if wants_fragment(request) else "list.html"
    try:
        filters = filter_of(request, SubjectFilter)
    except BadFilter as exc:
        wrong = {"filters": SubjectFilter(), "typed": request.GET.dict(), "error": str(exc), "sizes": SIZES}
        return _render(request, template, wrong, status=400)
    context: dict[str, Any] = {"filters": filters, "typed": vars(filters), "sizes": SIZES}
    if filters.is_empty and not filters.after:
        region: regions.Region[Any] = regions.load("subjects by type", subjects.top_of_types)
        context |= {"region": region, "types": region.value}
    else:
        region = regions.load("subjects", lambda: subjects.page(filters))
        context |= {"region": region, "page": region.value}
    here = filters.query(after=str(filters.after or ""))
    return push_url(_render(request, template, context), f"{request.path}?{here}" if here else request.path)


@needs(access.VIEW)
@require_safe
@takes("type", "id", "after")
def subject(request: HttpRequest) -> HttpResponse:
    """Show one subject. Type and id stand in the query, which keeps every character; a path would not."""
    kind, identity = request.GET.get("type", ""), request.GET.get("id", "")
    if not kind or not _is_name(kind) or not _is_name(identity):
        return no_such(request, MISSING, _("A subject has a type and an id."))
    try:
        after = Cursor.parse(request.GET["after"]) if request.GET.get("after") else None
    except BadFilter as exc:
        return no_such(request, MISSING, str(exc), status=400, error=str(exc))
    filters = _list_of(kind, identity)
    with regions.reading() as read:
        counted = read("subject counts", lambda: about.count(kind, identity))
        known = sum((counted.value or {}).values())
        found = read("subject letters", lambda: about.page(kind, identity, after, known=known))
        shown = found.value.rows if found.value else ()
        told = read("subject timeline", lambda: about.timeline(shown))
        streams = read("subject streams", lambda: about.streams(shown))
    numbers = counted.value or {}
    context = {
        "subject": {"type": kind, "id": identity},
        "counted": counted,
        "found": found,
        "told": told,
        "streams": streams,
        "after": after,
        "filters": filters,
        "now": timezone.now(),
        "opens": numbers.get(RecoveryStatus.PENDING, 0),
        "recoverable": totals.of_statuses(numbers) if counted.value is not None else None,
        "total": sum(numbers.values()),
        "commands": shell.of_list(request, filters) if filters else (),
        "retry": request.get_full_path(),
    }
    return _render(request, "subject.html", context)


def _is_name(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return len(text) <= MAX_NAME and "\x00" not in text


def _list_of(kind: str, identity: str) -> LetterFilter | None:
    """Return the filter of the letters about a subject; None for one that the list's filter cannot name."""
    try:
        filters = LetterFilter.parse({"subject": f"{kind}:{identity}"})
    except BadFilter:
        return None
    return filters if filters.subject_pair == (kind, identity) else None


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/subjects/{template}", context, status=status)
