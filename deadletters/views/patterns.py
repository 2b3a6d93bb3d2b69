"""Every component in every state on one page, for those who build pages; only with DEBUG."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from deadletters.models import RecoveryStatus


@require_safe
def patterns(request: HttpRequest) -> HttpResponse:
    """Show the components; 404 without DEBUG."""
    if not settings.DEBUG:
        raise Http404
    return render(request, "deadletters/patterns.html", {"statuses": RecoveryStatus.values})
