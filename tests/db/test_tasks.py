"""The tasks of the dead letters, and the rows that are made once."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import ModelEntry

from deadletters import tasks
from deadletters.models import FailureGroup, GroupDelta, GroupHour, RecoveryPolicy, RecoveryRun
from deadletters.project.celery import app
from deadletters.recovery import schedule
from deadletters.words.policies import DEFAULT_POLICIES
from tests.factories import a_letter

pytestmark = pytest.mark.django_db


def test_the_fold_task_makes_the_groups_and_leaves_no_change_waiting():
    a_letter()

    tasks.fold_counts()
    tasks.fold_counts()

    assert FailureGroup.objects.count() == 1
    assert not GroupDelta.objects.exists()


def test_keeping_house_fingerprints_anew_and_forgets_old_trends():
    letter = a_letter(error="ValueError: order 17")
    a_letter(dead_lettered_at=timezone.now() - timedelta(days=91))
    tasks.fold_counts()
    assert GroupHour.objects.count() == 2

    tasks.keep_house()

    letter.refresh_from_db()
    assert letter.error_fingerprint_version == 2
    assert not GroupHour.objects.filter(hour__lt=timezone.now() - timedelta(days=90)).exists()


def test_a_group_that_nobody_touched_for_a_day_is_no_longer_new():
    a_letter(dead_lettered_at=timezone.now() - timedelta(days=2))
    a_letter(error="Other: x", dead_lettered_at=timezone.now())
    tasks.fold_counts()

    tasks.keep_house()

    assert sorted(FailureGroup.objects.values_list("state", flat=True)) == ["new", "ongoing"]


def test_every_beat_row_names_a_task_that_the_worker_knows_and_a_queue_that_it_listens_to():
    app.loader.import_default_modules()
    rows = PeriodicTask.objects.exclude(name="celery.backend_cleanup")

    assert rows.count() >= 6
    for row in rows:
        assert row.task in app.tasks
        assert row.queue in {"inbox", "outbox", "perspective", "recovery"}
        assert isinstance(json.loads(row.args), list)


def test_policies_are_made_once_and_what_an_administrator_edits_stays():
    assert RecoveryPolicy.objects.count() == len(DEFAULT_POLICIES)
    RecoveryPolicy.objects.filter(cause="terminal").update(max_recoveries=7)
    RecoveryPolicy.objects.filter(cause="no_handler").delete()
    PeriodicTask.objects.filter(task="deadletters.fold_counts").update(enabled=False)

    call_command("migrate", verbosity=0)

    assert RecoveryPolicy.objects.get(cause="terminal").max_recoveries == 7
    assert RecoveryPolicy.objects.count() == len(DEFAULT_POLICIES) - 1
    assert not PeriodicTask.objects.get(task="deadletters.fold_counts").enabled


def test_a_tick_that_was_missed_for_hours_is_caught_up_once():
    row = PeriodicTask.objects.get(task="deadletters.recover_due")
    row.last_run_at = timezone.now() - timedelta(hours=3)
    entry = ModelEntry(row, app=app)

    assert entry.is_due().is_due
    assert not next(entry).is_due().is_due


def test_two_beats_that_both_ask_recover_each_letter_once():
    letter = a_letter(next_recovery_at=timezone.now())

    tasks.recover_due()
    tasks.recover_due()

    (run,) = RecoveryRun.objects.all()
    assert run.scope == {"letters": [str(letter.pk)]}


def test_a_recovery_that_has_more_to_do_asks_for_itself(monkeypatch, configure):
    asked_for = []
    monkeypatch.setattr(tasks.wakeups, "send", asked_for.append)
    monkeypatch.setattr(schedule, "SCAN_ROWS", 1)
    configure(DRAIN_SECONDS=0.000_001)
    letters = [a_letter(next_recovery_at=timezone.now()) for _ in range(2)]

    tasks.recover_due()
    assert [wakeup.task for wakeup in asked_for] == ["deadletters.recover_due"]
    tasks.recover_due()
    tasks.recover_due()

    assert RecoveryRun.objects.count() == len(letters)
    assert len(asked_for) == 2


def test_the_readme_names_each_task_that_must_be_asked_for_where_no_beat_row_is():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    ours = {row.task for row in PeriodicTask.objects.filter(task__startswith="deadletters.")}

    assert len(ours) == 6
    assert [task for task in ours if f"`{task}`" not in readme] == []
