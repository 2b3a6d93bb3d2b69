"""The beat rows: made once, so that what an administrator edits stays."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.utils import timezone

from queues.conf import conf
from queues.wakeups import CELERY_QUEUES, DRAIN_TASK
from queues.words.sources import INBOX


def make_rows(**_: Any) -> None:
    """Make the rows that are missing: one tick for each source, one for folding counters, one for keeping house."""
    for source, queue in CELERY_QUEUES.items():
        make_row(f"queues: tick {queue}", DRAIN_TASK, seconds=conf().tick_seconds, args=[source], queue=queue)
    make_row("queues: fold counters", "queues.fold_counters", seconds=conf().tick_seconds, queue=CELERY_QUEUES[INBOX])
    make_row("queues: keep house", "queues.keep_house", seconds=3600, queue=CELERY_QUEUES[INBOX])


def make_row(name: str, task: str, *, seconds: float, queue: str, args: Sequence[str] = ()) -> None:
    """Make a beat row unless there is one of this name, or no django_celery_beat; rounded to whole seconds."""
    if not apps.is_installed("django_celery_beat"):
        return
    from django_celery_beat.models import IntervalSchedule, PeriodicTask

    if PeriodicTask.objects.filter(name=name).exists():
        return
    period = max(round(seconds), 1)
    every, _ = IntervalSchedule.objects.get_or_create(every=period, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.get_or_create(
        name=name,
        defaults={
            "task": task,
            "interval": every,
            "args": json.dumps(args),
            "queue": queue,
            "expire_seconds": period,
            "start_time": timezone.now() - timedelta(seconds=period),
        },
    )
