"""Downloads: one letter, its payload's bytes, and the list as it is filtered."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from deadletters import exports
from deadletters.exports import Form
from deadletters.views.access import needs
from deadletters.views.letter import no_such_letter, whole
from deadletters.views.letters import filters_of
from deadletters.views.parameters import takes
from deadletters.views.timing import streamed
from deadletters.words import access
from deadletters.words.errors import BadChange, BadFilter, NoSuchLetter

PLAIN = "text/plain; charset=utf-8"
TYPES = {Form.JSON_LINES: "application/x-ndjson; charset=utf-8", Form.CSV: "text/csv; charset=utf-8"}


@needs(access.VIEW)
@require_safe
def letter_list(request: HttpRequest, form: str) -> HttpResponseBase:
    """Stream the list that the filter names; 400 with the reason for a filter that is not understood."""
    now = timezone.now()
    known = Form(form)
    try:
        export = exports.export_letters(filters=filters_of(request), form=known, user=request.user, now=now)
    except BadFilter as exc:
        return HttpResponse(str(exc), status=400, content_type=PLAIN)
    response = StreamingHttpResponse(streamed(export.lines), content_type=TYPES[known])
    return named(response, f"dead-letters-{now:%Y%m%d-%H%M%S}.{known}")


@needs(access.VIEW)
@require_safe
@takes()
def letter(request: HttpRequest, dead_letter_id: UUID) -> HttpResponseBase:
    """Send one letter as JSON, masked."""
    try:
        text = exports.export_letter(dead_letter_id=dead_letter_id, user=request.user)
    except NoSuchLetter:
        return _missing()
    return named(HttpResponse(text, content_type="application/json"), f"dead-letter-{dead_letter_id}.json")


@needs(access.REVEAL)
@require_POST
def payload(request: HttpRequest, dead_letter_id: UUID) -> HttpResponseBase:
    """Stream a payload's bytes, as JSON only where they are the database's own rendering; 422 without a reason."""
    reason = request.POST.get("reason", "")
    try:
        stored = exports.export_payload(dead_letter_id=dead_letter_id, user=request.user, reason=reason)
    except NoSuchLetter:
        return no_such_letter(request)
    except BadChange as exc:
        return whole(request, dead_letter_id, status=422, download_error=str(exc))
    kind, ending = ("application/octet-stream", "bin") if stored.is_exact else ("application/json", "json")
    response = StreamingHttpResponse(streamed(stored.pieces()), content_type=kind)
    response["Content-Length"] = str(stored.size)
    return named(response, f"payload-{dead_letter_id}.{ending}")


def named(response: HttpResponseBase, name: str) -> HttpResponseBase:
    """Let a browser save the answer, and never show it: it holds what others wrote."""
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _missing() -> HttpResponse:
    return HttpResponse("There is no such dead letter.", status=404, content_type=PLAIN)
