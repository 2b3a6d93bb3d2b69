"""System checks of the pages."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, register
from django.core.checks import Warning as CheckWarning

from deadletters.conf import conf

HTMX = "django_htmx.middleware.HtmxMiddleware"


@register()
def check_settings(**_: Any) -> list[CheckMessage]:
    """Let a bad setting stop the start, by its name."""
    conf()
    return []


@register()
def check_middleware(**_: Any) -> list[CheckMessage]:
    """Say what the pages miss in MIDDLEWARE; they work without, only less well."""
    missing: list[CheckMessage] = []
    if HTMX not in settings.MIDDLEWARE:
        said = "The pages cannot tell fragments from pages, so that each click loads a whole page."
        missing.append(CheckWarning(said, hint=f"Add {HTMX} to MIDDLEWARE.", id="deadletters.W001"))
    if not any("csp" in name.lower() for name in settings.MIDDLEWARE):
        hint = "Add csp.middleware.CSPMiddleware; the pages need nothing but 'self'."
        missing.append(CheckWarning("No Content-Security-Policy is sent.", hint=hint, id="deadletters.W002"))
    return missing
