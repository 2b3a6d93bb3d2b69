"""The beat rows: made once, so that what an administrator edits stays."""

from datetime import timedelta
from typing import Any

from django.apps import apps
from django.utils import timezone

from queues.conf import conf
from queues.wakeups import CELERY_QUEUES, DRAIN_TASK


def make_rows(**_: Any) -> None:
    """Make the rows that are missing: one tick for each source, one for keeping house."""
    if not apps.is_installed("django_celery_beat"):
        return
    _make("queues: tick inbox", DRAIN_TASK, seconds=round(conf().tick_seconds) or 1, args='["wh_inbox"]', queue="inbox")
    _make("queues: keep house", "queues.keep_house", seconds=3600, args="[]", queue=CELERY_QUEUES["wh_inbox"])


def _make(name: str, task: str, *, seconds: int, args: str, queue: str) -> None:
    from django_celery_beat.models import IntervalSchedule, PeriodicTask

    if PeriodicTask.objects.filter(name=name).exists():
        return
    every, _ = IntervalSchedule.objects.get_or_create(every=seconds, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.get_or_create(
        name=name,
        defaults={
            "task": task,
            "interval": every,
            "args": args,
            "queue": queue,
            "expire_seconds": seconds,
            "start_time": timezone.now() - timedelta(seconds=seconds),
        },
    )
