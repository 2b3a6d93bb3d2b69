"""System checks of the queues."""

from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, register

from queues.conf import conf, dead_letter_store


@register()
def check_dead_letter_store(**_: Any) -> list[CheckMessage]:
    """Warn when nothing keeps dead letters, since rows then retry for ever."""
    if conf().dead_letter_store is None:
        hint = 'Set QUEUES["DEAD_LETTER_STORE"] = "deadletters.store.letters.Store".'
        return [
            checks.Warning("No dead letter store is set: nothing is ever dead-lettered.", hint=hint, id="queues.W001")
        ]
    try:
        dead_letter_store()
    except ImportError as exc:
        return [checks.Error(f"The dead letter store cannot be imported: {exc}", id="queues.E001")]
    return []
