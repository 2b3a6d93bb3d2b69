"""The stand-alone product: settings, URLs, Celery app and runner. A host project uses none of it."""

from deadletters.project.celery import app as celery_app

__all__ = ["celery_app"]
