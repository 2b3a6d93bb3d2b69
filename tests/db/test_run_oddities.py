"""Runs over letters and rows that somebody wrote by hand: each letter has its end, and no run keeps another."""

import json
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from deadletters.models import DeadLetter, OperatorAction, RecoveryItem, RecoveryRun
from deadletters.queries import runs as reading
from deadletters.recovery import runs
from deadletters.recovery.stepping import step
from deadletters.store.recovery import Sent
from deadletters.triage import recover
from deadletters.words.scopes import Letters
from queues import Delay, handles
from tests.db.runs import AT_ONCE, EVERYTHING, begun, dead, to_the_end, totals, work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("stored", ['"text"', '{"status": "high"}', '{"life": 7, "max_attempts": 0}', "[]", "7"])
def test_a_letter_whose_row_cannot_be_restored_does_not_keep_the_others(shop, olga, sql, stored):
    dead(4)
    shop.mend()
    letter = DeadLetter.objects.first()
    sql("UPDATE wh_dead_letters SET source_row = %s WHERE dead_letter_id = %s", stored, letter.pk)
    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 3, "skipped": 1}
    assert reading.whys(run_id) == [("skipped", "its row cannot be restored as it is stored", 1)]
    assert recover(dead_letter_id=letter.pk, user=olga).sent is Sent.BROKEN
    assert DeadLetter.objects.get(pk=letter.pk).recovery_status == 0


@pytest.mark.parametrize("position", ["abc", 1.5, None, [1], "9" * 40])
def test_a_place_that_nobody_understands_is_no_place(shop, olga, sql, position):
    dead(3)
    letter = DeadLetter.objects.first()
    row = json.loads(letter.source_row) | {"position": position}
    sql("UPDATE wh_dead_letters SET source_row = %s WHERE dead_letter_id = %s", json.dumps(row), letter.pk)

    run_id = runs.prepare(user=olga, scope=EVERYTHING)

    assert reading.get(run_id).frozen_count == 3
    assert RecoveryItem.objects.get(run=run_id, dead_letter_id=letter.pk).place == 3


def test_picked_letters_that_are_not_there_any_more_are_accounted_for(shop, olga, sql):
    dead(4)
    ids = list(DeadLetter.objects.order_by("dead_lettered_at").values_list("pk", flat=True))
    sql("DELETE FROM wh_dead_letters WHERE dead_letter_id = %s", ids[0])
    sql("UPDATE wh_dead_letters SET superseded_by = %s WHERE dead_letter_id = %s", ids[2], ids[1])

    run_id = runs.prepare(user=olga, scope=Letters(ids=ids))

    assert reading.get(run_id).frozen_count == 4
    assert totals(run_id) == {"waiting": 2, "skipped": 2}
    assert {why for _, why, _ in reading.whys(run_id)} == {"the letter is gone", "another letter took its place"}


@pytest.mark.parametrize(
    "change",
    [
        "starts_at = 'infinity'",
        "stepped_at = '-infinity'",
        "state = 'weird'",
        "kind = 'weird'",
        "plan = '[]'",
        "scope = 'null'",
    ],
)
def test_a_run_cannot_be_written_that_no_reader_understands(shop, olga, sql, change):
    dead(1)
    runs.prepare(user=olga, scope=EVERYTHING)

    with pytest.raises(IntegrityError), transaction.atomic():
        sql(f"UPDATE recovery_runs SET {change}")


def test_a_plan_that_nobody_understands_keeps_no_message_from_being_put_off(handlers, olga):
    mended = []

    @handles("test.N", max_attempts=1)
    def handle(message):
        if not mended:
            raise ValueError("no")
        raise Delay(timedelta(hours=3))

    dead(1)
    mended.append(True)
    run_id = begun(olga)
    step(5)
    RecoveryRun.objects.update(plan={"deadline_seconds": "soon"})
    work()

    item = RecoveryItem.objects.get(run=run_id)
    assert item.state == "sent"
    assert item.deadline_at - item.delayed_until == timedelta(hours=1)


def test_a_reason_that_the_database_cannot_hold_is_made_visible(shop, olga):
    dead(1)
    run_id = runs.prepare(user=olga, scope=EVERYTHING, reason="a\x00b \ud800")
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE, reason="c\x00d")
    runs.stop(user=olga, run_id=run_id, reason="e\x00f")

    assert RecoveryRun.objects.get().reason == "c\\x00d"
    said = OperatorAction.objects.filter(run_id=run_id).order_by("id").values_list("action", "reason")
    assert list(said) == [("run_prepare", "a\\x00b \\ud800"), ("run_start", "c\\x00d"), ("run_stop", "e\\x00f")]
