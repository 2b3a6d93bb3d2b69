"""Edits beside each other, beside recoveries and beside runs: who comes second is told, and nothing is lost."""

import json
import threading

import pytest
from django.db import transaction

from deadletters.models import DeadLetterPayload, RecoveryItem, RecoveryStatus
from deadletters.recovery import runs
from deadletters.recovery.stepping import step_run
from deadletters.store.recovery import Sent, recover
from deadletters.words.errors import BadChange, StaleChange
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters
from tests.db.conftest import at_once, until_somebody_waits_for_a_lock
from tests.db.editing import edit
from tests.factories import a_letter

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_of_two_edits_at_once_one_is_stale(lea):
    letter = a_letter()

    def attempt(text):
        try:
            return edit(letter, text, lea, row_version=1)
        except StaleChange:
            return "stale"

    answers = at_once(lambda: attempt('{"a": 1}'), lambda: attempt('{"a": 2}'))

    assert sorted(map(str, answers)) == ["2", "stale"]
    assert DeadLetterPayload.objects.count() == 2


def first_and_second(first, second):
    """Let the first begin its transaction, the second wait for its lock, and only then the first commit."""
    has_begun = threading.Event()

    def lead():
        with transaction.atomic():
            done = first()
            has_begun.set()
            until_somebody_waits_for_a_lock()
        return done

    def follow():
        assert has_begun.wait(20)
        return second()

    return at_once(lead, follow)


@pytest.mark.django_db(transaction=True)
def test_a_recovery_that_waits_for_an_edit_sends_what_was_edited(lea, sql):
    letter = a_letter(payload='{"v": 1}')

    edited, sent = first_and_second(
        lambda: edit(letter, '{"v": 2}', lea), lambda: transaction.atomic(recover)(letter.pk, "ann")
    )

    assert (edited, sent) == (2, Sent.SENT)
    (row,) = sql("SELECT message_id, event_data::text AS body FROM wh_inbox")
    assert json.loads(row["body"]) == {"v": 2}
    assert row["message_id"] == DeadLetterPayload.objects.get(version=2).message_id


@pytest.mark.django_db(transaction=True)
def test_an_edit_that_waits_for_a_recovery_is_refused_and_changes_nothing(lea, sql):
    letter = a_letter(payload='{"v": 1}')

    def attempt():
        with pytest.raises(BadChange, match="recovering"):
            edit(letter, '{"v": 2}', lea)

    sent, _ = first_and_second(lambda: recover(letter.pk, "ann"), attempt)

    assert sent is Sent.SENT
    assert [json.loads(row["body"]) for row in sql("SELECT event_data::text AS body FROM wh_inbox")] == [{"v": 1}]
    assert not DeadLetterPayload.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_run_that_waits_for_an_edit_skips_the_letter(lea):
    letter = a_letter()
    run_id = runs.prepare(user=lea, scope=Letters(ids=[letter.pk]))
    runs.start(user=lea, run_id=run_id, plan=Plan())
    transaction.atomic(step_run)(run_id)

    first_and_second(lambda: edit(letter, '{"v": 2}', lea), lambda: transaction.atomic(step_run)(run_id))

    assert RecoveryItem.objects.values_list("state", "why").get() == ("skipped", "changed since frozen")


def test_an_edit_after_a_recovery_is_refused(lea):
    letter = a_letter()
    recover(letter.pk, "ann")

    with pytest.raises(BadChange, match="recovering"):
        edit(letter, "{}", lea)


def test_what_is_edited_after_it_was_frozen_is_skipped_by_the_run(lea):
    letter = a_letter()
    run_id = runs.prepare(user=lea, scope=Letters(ids=[letter.pk]))
    edit(letter, '{"order": 43}', lea)
    runs.start(user=lea, run_id=run_id, plan=Plan())
    for _ in range(5):
        step_run(run_id)

    assert RecoveryItem.objects.values_list("state", "why").get() == ("skipped", "changed since frozen")
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.PENDING
