"""The Celery app of the stand-alone product."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "deadletters.project.settings")
app = Celery("deadletters")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
