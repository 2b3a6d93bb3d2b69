"""The dead letters app."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DeadLettersConfig(AppConfig):
    name = "deadletters"
    verbose_name = "Dead letters"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from deadletters import checks  # noqa: F401 - registers the checks

        post_migrate.connect(make_groups, sender=self)


def make_groups(app_config: AppConfig, using: str, **_: Any) -> None:
    """Make the groups that are missing, with their permissions; present ones are left as they are.

    Permissions are made first: Django makes them by the same signal, and the order of apps is the host's.
    """
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    from deadletters.words.access import GROUPS

    create_permissions(app_config, using=using, verbosity=0)
    for name, permissions in GROUPS.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            codenames = [permission.partition(".")[2] for permission in permissions]
            of_letters = Permission.objects.using(using).filter(content_type__app_label="deadletters")
            group.permissions.set(of_letters.filter(codename__in=codenames))
