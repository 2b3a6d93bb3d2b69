"""The queues app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class QueuesConfig(AppConfig):
    name = "queues"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from queues import checks, perspectives, reactions, schedule  # noqa: F401 - registers the checks
        from queues.conf import conf
        from queues.store import partitions

        conf()
        autodiscover_modules("handlers")
        post_migrate.connect(partitions.make_after_migrate, sender=self)
        post_migrate.connect(schedule.make_rows, sender=self)
        post_migrate.connect(perspectives.subscribe_after_migrate, sender=self)
        post_migrate.connect(reactions.subscribe_after_migrate, sender=self)
