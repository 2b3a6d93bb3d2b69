"""System checks of the queues: what a project lacks is said before it is missed."""

import json

import pytest
from django.apps import apps
from django.core.checks import run_checks

from queues.conf import conf
from queues.wakeups import CELERY_QUEUES
from tests.contract.test_readme import README


@pytest.fixture
def without_beat(monkeypatch):
    is_installed = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_celery_beat" and is_installed(name))


def found():
    return {message.id: message for message in run_checks() if message.id.startswith("queues.")}


def test_a_project_that_has_everything_is_told_nothing():
    assert found() == {}


def test_without_a_scheduler_it_is_said_what_is_lost_and_what_another_one_must_tick(without_beat):
    warning = found()["queues.W002"]

    assert "wake-up" in warning.msg
    ticked = [
        "queues.drain",
        *CELERY_QUEUES,
        *CELERY_QUEUES.values(),
        f"{conf().tick_seconds:g} seconds",
        "queues.keep_house",
        "queues.fold_counters",
    ]
    assert [name for name in [*ticked, "SILENCED_SYSTEM_CHECKS"] if name not in warning.hint] == []


def test_a_project_with_another_scheduler_silences_the_warning(without_beat, settings):
    settings.SILENCED_SYSTEM_CHECKS = ["queues.W002"]

    assert found()["queues.W002"].is_silenced()


def test_the_project_of_the_readme_has_a_scheduler():
    listed = README.partition("INSTALLED_APPS += ")[2].partition("\n")[0]

    assert "django_celery_beat" in json.loads(listed)
