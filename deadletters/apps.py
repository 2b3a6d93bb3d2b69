"""The dead letters app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DeadLettersConfig(AppConfig):
    name = "deadletters"
    verbose_name = "Dead letters"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from deadletters import checks, defaults  # noqa: F401 - registers the checks

        for make in (defaults.make_groups, defaults.make_policies, defaults.make_beat_rows):
            post_migrate.connect(make, sender=self)
