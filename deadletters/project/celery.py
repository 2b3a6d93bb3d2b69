"""The Celery app of the stand-alone product."""

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_ready

READY_FILE = "_DEADLETTERS_READY_FILE"
"""Environment variable with the file that a worker makes when it takes tasks: the runner waits for it."""

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "deadletters.project.settings")
app = Celery("deadletters")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect  # type: ignore[untyped-decorator]
def say_ready(**_: Any) -> None:
    """Tell the runner, if one waits."""
    if path := os.environ.get(READY_FILE):
        Path(path).touch()
