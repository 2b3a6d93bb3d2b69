"""System checks of the queues."""

from typing import Any

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage, register

from queues.conf import conf, dead_letter_store
from queues.wakeups import CELERY_QUEUES, DRAIN_TASK
from queues.words.sources import INBOX


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


@register()
def check_schedule(**_: Any) -> list[CheckMessage]:
    """Warn when no beat rows can be made, since only a tick replaces a wake-up that was lost or has expired."""
    if apps.is_installed("django_celery_beat"):
        return []
    said = (
        "Nothing ticks: a message whose wake-up is lost or expires waits for the next one, what is delayed or left by"
        " a crash runs late or never, counters are not folded, and no months of the delivery log are made ahead."
    )
    ticks = ", ".join(f"{source} to the queue {queue}" for source, queue in CELERY_QUEUES.items())
    hint = (
        'Add "django_celery_beat" to INSTALLED_APPS, migrate, and run Celery beat with its DatabaseScheduler. If'
        f" another scheduler ticks, let it send every {conf().tick_seconds:g} seconds (TICK_SECONDS) the task"
        f" {DRAIN_TASK} with each source ({ticks}) and queues.fold_counters, every hour queues.keep_house, both to the"
        f' queue {CELERY_QUEUES[INBOX]}, and set SILENCED_SYSTEM_CHECKS = ["queues.W002"].'
    )
    return [checks.Warning(said, hint=hint, id="queues.W002")]
