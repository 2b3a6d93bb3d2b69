"""What is sent after an edit: under which id, with which bytes, and whose story it stays."""

import json
from uuid import uuid4

import pytest
from django.utils import timezone

from deadletters.models import DeadLetter, DeadLetterPayload, RecoveryStatus
from deadletters.queries import letters, parts, timeline
from deadletters.store.recovery import Sent, recover
from deadletters.words.filters import LetterFilter
from queues import Terminal, deduplication, handles, send
from queues.testing import drain
from tests.db.editing import edit, restore, set_raw
from tests.factories import a_letter

pytestmark = pytest.mark.django_db


@pytest.fixture
def picky(handlers):
    """Register a handler that refuses any order but 43, and return the messages that it has seen."""
    seen = []

    @handles("test.Picky", max_attempts=1)
    def handler(message):
        seen.append(message)
        if message.payload["order"] != 43:
            raise Terminal("no such order")

    return seen


def died(message_id=None):
    send("test.Picky", {"order": 42}, stream="s", message_id=message_id)
    drain()
    return DeadLetter.objects.get()


def test_an_edited_message_is_sent_under_a_new_id_that_knows_its_original(picky, lea, inbox_row):
    letter = died()
    original = letter.source_id
    edit(letter, '{"order": 43}', lea)
    new = DeadLetterPayload.objects.get(version=2).message_id

    assert recover(letter.pk, "ann") is Sent.SENT
    row = inbox_row(new)
    assert (row["dead_letter_id"], json.loads(row["metadata"])["original_id"]) == (letter.pk, str(original))
    assert inbox_row(original) is None
    drain()

    letter.refresh_from_db()
    assert (letter.recovery_status, letter.source_id, letter.original_id) == (RecoveryStatus.RECOVERED, new, original)
    assert picky[-1].payload == {"order": 43}


def test_an_edited_message_that_dies_again_keeps_its_id_and_its_letter(picky, lea):
    letter = died()
    original = letter.source_id
    edit(letter, '{"order": 44}', lea)
    recover(letter.pk, "ann")
    drain()

    letter = DeadLetter.objects.get()
    assert (letter.deaths, letter.original_id, letter.edited_version) == (2, original, 2)
    once_more = letter.source_id
    recover(letter.pk, "ann")
    drain()
    letter.refresh_from_db()
    assert (letter.deaths, letter.source_id, letter.original_id) == (3, once_more, original)


def test_an_edit_that_is_undone_is_sent_under_the_id_of_the_original(picky, lea, sql):
    letter = died()
    original = letter.source_id
    edit(letter, '{"order": 44}', lea)
    recover(letter.pk, "ann")
    drain()
    restore(letter, 1, lea)
    recover(letter.pk, "ann")

    row = sql("SELECT message_id, metadata FROM wh_inbox")[0]
    assert row["message_id"] == original
    assert "original_id" not in json.loads(row["metadata"])
    letter.refresh_from_db()
    assert (letter.source_id, letter.original_id) == (original, None)


def test_an_unedited_message_keeps_its_id(picky):
    letter = died()
    recover(letter.pk, "ann")
    drain()

    again = DeadLetter.objects.get()
    assert (again.source_id, again.original_id) == (letter.source_id, None)


def test_an_id_that_was_edited_away_is_still_told_when_it_comes_again(picky, lea, sql, configure):
    configure(DEDUPLICATION_DAYS=1)
    chosen = uuid4()
    letter = died(chosen)
    edit(letter, '{"order": 44}', lea)
    recover(letter.pk, "ann")
    drain()
    sql("UPDATE wh_message_deduplication SET first_seen_at = now() - interval '2 days'")

    assert deduplication.forget_old() == 0
    assert not send("test.Picky", {"order": 42}, message_id=chosen).is_new


def test_an_id_that_is_dead_under_another_letter_is_a_conflict_and_changes_nothing(picky, lea):
    letter = died()
    original = letter.source_id
    edit(letter, '{"order": 44}', lea)
    recover(letter.pk, "ann")
    drain()
    restore(letter, 1, lea)
    a_letter(source_id=original)

    assert recover(letter.pk, "ann") is Sent.CONFLICT
    letter.refresh_from_db()
    assert (letter.recovery_status, letter.original_id) == (RecoveryStatus.PENDING, original)


def test_an_outbox_message_that_was_edited_goes_out_under_its_new_id(lea, sql):
    letter = a_letter(source_table="wh_outbox", destination="shop.eu")
    edit(letter, '{"order": 43}', lea)
    recover(letter.pk, "ann")

    row = sql("SELECT message_id, destination, event_data::text AS body, metadata::text AS meta FROM wh_outbox")[0]
    assert (row["destination"], json.loads(row["body"])) == ("shop.eu", {"order": 43})
    assert row["message_id"] != letter.source_id
    assert json.loads(row["meta"])["original_id"] == str(letter.source_id)


def test_exact_bytes_of_an_edit_reach_the_handler(handlers, lea):
    seen = []
    handles("test.Taken")(lambda message: seen.append(message.payload))
    letter = a_letter(message_type="test.Taken")
    edit(letter, '{"a": "\\u0000", "n": 123456789012345678901234567890}', lea)
    recover(letter.pk, "ann")
    drain()

    assert seen == [{"a": "\x00", "n": 123456789012345678901234567890}]


def test_bytes_that_no_inbox_takes_are_handled_once_they_are_edited(handlers, lea, sql):
    seen = []
    handles("test.Taken")(lambda message: seen.append(message.payload))
    letter = a_letter(source_table="broker", cause="unreadable", message_type="test.Taken")
    set_raw(sql, letter, b"\xff\xfe")
    edit(letter, '{"order": 43}', lea)
    recover(letter.pk, "ann")
    drain()

    assert seen == [{"order": 43}]
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.RECOVERED


def test_both_ids_find_the_letter_and_its_whole_story(picky, lea):
    letter = died()
    original = letter.source_id
    edit(letter, '{"order": 44}', lea)
    recover(letter.pk, "ann")
    drain()
    letter.refresh_from_db()

    for wanted in (original, letter.source_id):
        rows = letters.page(LetterFilter(q=str(wanted)), now=timezone.now()).rows
        assert [row.letter.pk for row in rows] == [letter.pk]
    told = timeline.of(parts.of(letters.get(letter.pk)).history)
    assert len([event for event in told.events if event.kind == "terminal"]) == 2
