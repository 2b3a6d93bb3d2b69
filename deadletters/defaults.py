"""Rows that a new database gets after its migrations: groups of people, policies, beat rows.

What is there already is left as it is: an administrator's changes stay.
"""

from typing import Any

from django.apps import AppConfig
from django.apps import apps as present
from django.apps.registry import Apps

from deadletters.store.steps import SCHEDULE, STEP
from deadletters.words.access import GROUPS
from deadletters.words.policies import DEFAULT_POLICIES
from queues.conf import conf
from queues.schedule import make_row

HOUSE_SECONDS = 300


def make_groups(app_config: AppConfig, using: str, **_: Any) -> None:
    """Make the groups that are missing, with their permissions; present ones are left as they are.

    Permissions are made first: Django makes them by the same signal, and the order of apps is the host's.
    """
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    for app in (app_config, present.get_app_config("queues")):
        create_permissions(app, using=using, verbosity=0)
    for name, permissions in GROUPS.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            ours = Permission.objects.using(using).filter(content_type__app_label__in=("deadletters", "queues"))
            known = {f"{each.content_type.app_label}.{each.codename}": each for each in ours.select_related()}
            group.permissions.set([known[name] for name in permissions if name in known])


def make_policies(using: str, apps: Apps = present, **_: Any) -> None:
    """Make the recovery policies of a database that has none; `apps`: the models as they are migrated to."""
    try:
        policy_model = apps.get_model("deadletters", "RecoveryPolicy")
    except LookupError:  # migrated back to before there was one
        return
    policies = policy_model.objects.using(using)
    if policies.exists():
        return
    policies.bulk_create(
        [
            policy_model(
                name=policy.name,
                cause=policy.cause,
                failure_reason=policy.reason,
                is_automatic=policy.automatic,
                max_recoveries=policy.max_recoveries,
                cooldown_seconds=round(policy.cooldown.total_seconds()),
                then=policy.then,
            )
            for policy in DEFAULT_POLICIES
        ],
        ignore_conflicts=True,  # two hosts may migrate at once
    )


def make_beat_rows(**_: Any) -> None:
    """Make the beat rows that are missing."""
    make_row("dead letters: fold counts", "deadletters.fold_counts", seconds=conf().tick_seconds, queue="recovery")
    make_row("dead letters: step runs", STEP.task, seconds=conf().tick_seconds, queue=STEP.queue)
    make_row("dead letters: recover what is due", SCHEDULE.task, seconds=60, queue=SCHEDULE.queue)
    make_row("dead letters: check builds", "deadletters.check_builds", seconds=15, queue=STEP.queue)
    make_row("dead letters: sweep recoveries", "deadletters.sweep_recoveries", seconds=60, queue=STEP.queue)
    make_row("dead letters: keep house", "deadletters.keep_house", seconds=HOUSE_SECONDS, queue="recovery")
