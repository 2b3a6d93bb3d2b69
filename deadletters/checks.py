"""System checks of the pages."""

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, register

_WANTED = {
    "django_htmx.middleware.HtmxMiddleware": ("deadletters.E001", "the pages cannot tell fragments from pages"),
    "django.contrib.auth.middleware.AuthenticationMiddleware": ("deadletters.E002", "nobody can sign in"),
}


@register()
def check_middleware(**_: Any) -> list[CheckMessage]:
    """Say which middleware the pages miss, and that no content security policy is sent."""
    missing: list[CheckMessage] = [
        checks.Error(f"{name} is not in MIDDLEWARE: {why}.", id=number)
        for name, (number, why) in _WANTED.items()
        if name not in settings.MIDDLEWARE
    ]
    if not any("csp" in name.lower() for name in settings.MIDDLEWARE):
        hint = "Add csp.middleware.CSPMiddleware; the pages need nothing but 'self'."
        missing.append(checks.Warning("No Content-Security-Policy is sent.", hint=hint, id="deadletters.W001"))
    return missing
