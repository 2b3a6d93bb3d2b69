"""Scans of the schedule: bounded, beside each other and beside what changes meanwhile."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from deadletters import counting, tasks
from deadletters.models import DeadLetter, FailureGroup
from deadletters.recovery import passes, schedule
from deadletters.store import decisions
from deadletters.words.policies import LAST_LOOK
from tests.db.conftest import at_once
from tests.db.scheduling import due, fresh, ids, scan, scheduled

pytestmark = pytest.mark.django_db


def test_600_letters_that_are_not_to_be_recovered_do_not_keep_one_behind_them_waiting():
    blocked = [due(cause="terminal", next_recovery_at=timezone.now() - timedelta(days=1)) for _ in range(200)]
    DeadLetter.objects.filter(pk__in=[each.pk for each in blocked[:100]]).update(
        cause="budget_spent", quiet_until=timezone.now() + timedelta(days=9)
    )
    copy_often(blocked, times=3)
    letter = due()

    assert DeadLetter.objects.filter(next_recovery_at__lt=timezone.now()).count() == 601
    assert scan() == 601

    assert scheduled() == [ids(letter)]
    assert not DeadLetter.objects.filter(next_recovery_at__lt=timezone.now()).exists()


def copy_often(letters: list[DeadLetter], *, times: int) -> None:
    """Make so many letters of each, itself among them."""
    rows = DeadLetter.objects.filter(pk__in=[letter.pk for letter in letters])
    copies = []
    for row in rows:
        for _ in range(times - 1):
            copy = DeadLetter.objects.get(pk=row.pk)
            copy.pk, copy.source_id = uuid4(), uuid4()
            copies.append(copy)
    DeadLetter.objects.bulk_create(copies)


def test_a_scan_of_more_than_its_rows_goes_on_and_is_bounded_by_its_time(monkeypatch):
    monkeypatch.setattr(schedule, "SCAN_ROWS", 2)
    letters = [due() for _ in range(5)]

    assert schedule.recover_due(seconds=0) == passes.Report(looked_at=2, more=True)
    assert scan() == 3

    assert [len(each) for each in scheduled()] == [2, 2, 1]
    assert set.union(*scheduled()) == ids(*letters)


def test_a_letter_that_changed_since_it_was_looked_at_is_left_alone():
    letter = due(cause="terminal")
    (looked,) = decisions.look_at([letter.pk])
    DeadLetter.objects.update(row_version=7)

    written = decisions.write([decisions.Decided(letter=looked, decision=decisions.Decision.NEVER)])

    assert written == {}
    assert fresh(letter).next_recovery_at is not None


@pytest.mark.django_db(transaction=True)
def test_two_scans_at_once_put_each_letter_into_one_run():
    letters = [due() for _ in range(40)]

    at_once(scan, scan)
    scan()

    found = scheduled()
    assert sum(map(len, found)) == 40
    assert set.union(*found) == ids(*letters)


@pytest.mark.django_db(transaction=True)
def test_a_letter_that_somebody_has_locked_does_not_hold_the_scan_up():
    locked, free = due(), due()

    def scan_while_it_is_locked() -> int:
        return at_once(scan)[0]

    with transaction.atomic():
        decisions.lock([locked.pk])
        assert scan_while_it_is_locked() == 1

    assert scheduled() == [ids(free)]
    assert scan() == 1


def test_the_task_brings_letters_in_line_and_recovers_what_is_due(ann):
    held, free = due(), due(error="KeyError: other")
    counting.fold()
    group = FailureGroup.objects.get(sample_letter_id=held.pk)
    FailureGroup.objects.filter(pk=group.pk).update(operator_disposition=2, held_at=timezone.now())
    passes.RecoveryPass.objects.create(group_id=group.pk)

    tasks.recover_due()
    tasks.recover_due()

    assert fresh(held).recovery_status == 2
    assert scheduled() == [ids(free)]


def test_a_letter_of_a_mover_whose_clock_is_wrong_stops_no_scan():
    odd = due(dead_lettered_at=datetime(9998, 12, 31, 23, tzinfo=UTC), quiet_until=timezone.now() + timedelta(days=1))
    letter = due()

    assert scan() == 2

    assert scheduled() == [ids(letter)]
    assert fresh(odd).next_recovery_at == LAST_LOOK
