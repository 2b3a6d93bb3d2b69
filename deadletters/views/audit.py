"""The audit: everything that people did."""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import push_url

from deadletters import actionexports
from deadletters.exports import Form
from deadletters.queries import audit, filternames, regions
from deadletters.views.access import needs
from deadletters.views.exports import PLAIN, TYPES, named
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import filter_of
from deadletters.views.timing import streamed
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import TARGETS, ActionFilter


@needs(access.VIEW)
@require_safe
def action_list(request: HttpRequest) -> HttpResponse:
    """Show a page of the audit; 400 with the reason for a filter that is not understood."""
    now = timezone.now()
    is_fragment = wants_fragment(request)
    template = "_results.html" if is_fragment else "list.html"
    context: dict[str, Any] = {"now": now, "targets": TARGETS}
    try:
        filters = filter_of(request, ActionFilter)
    except BadFilter as exc:
        wrong = {"filters": ActionFilter(), "typed": request.GET.dict(), "error": str(exc)}
        return _render(request, template, context | wrong, status=400)
    with regions.reading() as read:
        names = None if is_fragment else read("names in the audit", audit.names).value
        region = read("the audit", lambda: audit.page(filters, now=now))
        rows = region.value.rows if region.value else ()
        done_to = read("what it was done to", lambda: audit.targets([row.action for row in rows]))
        known = read("names", lambda: filternames.of(filters)).value
    context |= {"filters": filters, "typed": vars(filters), "named": known, "names": names}
    context |= {"page": region.value, "region": region, "done_to": done_to}
    context["rows"] = audit.with_targets(rows, done_to.value or {})
    here = filters.query(after=str(filters.after or ""))
    return push_url(_render(request, template, context), f"{request.path}?{here}" if here else request.path)


@needs(access.VIEW)
@require_safe
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """Stream the actions that the filter names; 400 with the reason for a filter that is not understood."""
    now, known = timezone.now(), Form(form)
    try:
        filters = filter_of(request, ActionFilter)
        exported = actionexports.export_actions(filters=filters, form=known, user=request.user, now=now)
    except BadFilter as exc:
        return HttpResponse(str(exc), status=400, content_type=PLAIN)
    response = StreamingHttpResponse(streamed(exported.lines), content_type=TYPES[known])
    return named(response, f"audit-{now:%Y%m%d-%H%M%S}.{known}")


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/audit/{template}", context, status=status)
