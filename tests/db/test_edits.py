"""Edits of payloads: versions, masks, refusals, and who is first."""

import json
import threading
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from deadletters import triage
from deadletters.models import DeadLetter, DeadLetterPayload, OperatorAction, RecoveryItem, RecoveryStatus
from deadletters.queries import letters, parts, timeline
from deadletters.recovery import runs
from deadletters.recovery.stepping import step_run
from deadletters.store.recovery import Sent, recover
from deadletters.triage import edits
from deadletters.words.errors import BadChange, NoSuchLetter, NoSuchVersion, StaleChange
from deadletters.words.filters import LetterFilter
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters
from queues import Terminal, deduplication, handles, send
from queues.testing import drain
from queues.words.redaction import MASK
from tests.db.conftest import at_once, until_somebody_waits_for_a_lock
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def lea(db):
    return a_user("lea", "Leads")


def edit(letter, text, user, **named):
    letter.refresh_from_db()
    given = {"reason": "the house number was missing", "row_version": letter.row_version, **named}
    return triage.edit(user=user, dead_letter_id=letter.pk, text=text, **given)


def restore(letter, version, user):
    letter.refresh_from_db()
    given = {"reason": "it was right", "row_version": letter.row_version}
    return triage.restore(user=user, dead_letter_id=letter.pk, version=version, **given)


def payload_of(letter):
    return json.loads(DeadLetter.objects.get(pk=letter.pk).envelope)["event_data"]


def set_raw(sql, letter, raw):
    sql(
        "UPDATE wh_dead_letters SET envelope_raw = %s, envelope_bytes = %s WHERE dead_letter_id = %s",
        raw,
        len(raw),
        letter.pk,
    )


def test_the_original_is_kept_as_version_1_and_each_edit_as_one_more(lea):
    letter = a_letter(payload='{"order_id": "42"}')

    assert edit(letter, '{"order_id": "43"}', lea) == 2
    assert edit(letter, '{"order_id": "44"}', lea, reason="the other one") == 3

    letter.refresh_from_db()
    assert payload_of(letter) == {"order_id": "44"}
    assert (letter.edited_version, letter.row_version, letter.envelope_raw) == (3, 3, None)
    assert letter.envelope_bytes == len('{"order_id":"44"}')
    kept = DeadLetterPayload.objects.order_by("version").values_list("version", "edited_by", "reason")
    assert list(kept) == [(1, None, ""), (2, "lea", "the house number was missing"), (3, "lea", "the other one")]
    assert json.loads(DeadLetterPayload.objects.get(version=1).envelope)["event_data"] == {"order_id": "42"}


def test_an_edit_is_audited_without_its_content(lea):
    letter = a_letter(payload='{"order_id": "42"}')
    edit(letter, '{"order_id": "secret-43"}', lea)

    action = OperatorAction.objects.get()
    assert (action.action, action.actor, action.dead_letter_id) == ("edit", "lea", letter.pk)
    assert action.reason == "the house number was missing"
    assert (action.before["version"], action.after["version"]) == (1, 2)
    assert "secret-43" not in json.dumps([action.before, action.after])


def test_a_restored_version_has_its_exact_bytes_and_its_own_id(lea, sql):
    letter = a_letter(payload="{}")
    raw = b'{"a" : 1e3, "a":2}'
    set_raw(sql, letter, raw)
    edit(letter, '{"a": 5}', lea)

    assert restore(letter, 1, lea) == 3

    letter.refresh_from_db()
    assert (bytes(letter.envelope_raw), letter.envelope_bytes) == (raw, len(raw))
    first, edited, restored = DeadLetterPayload.objects.order_by("version").values_list("message_id", flat=True)
    assert first == restored == letter.source_id
    assert edited != first


def test_an_edit_that_is_undone_by_hand_has_the_id_of_the_original(lea):
    letter = a_letter(payload='{"b": 1, "a": 2}')
    edit(letter, '{"b": 1, "a": 3}', lea)
    edit(letter, '{"b": 1, "a": 2}', lea)

    ids = DeadLetterPayload.objects.order_by("version").values_list("message_id", flat=True)
    assert ids[2] == ids[0] == letter.source_id


def test_a_number_that_is_written_in_another_way_is_another_payload(lea):
    letter = a_letter(payload='{"a": 1}')
    edit(letter, '{"a": 1.0}', lea)

    assert DeadLetterPayload.objects.get(version=2).message_id != letter.source_id


def test_an_editor_without_the_right_to_reveal_neither_sees_nor_destroys_a_secret(lea):
    lea.groups.clear()
    letter = a_letter(payload='{"password": "hunter2!", "city": "Bonn"}')
    with pytest.raises(PermissionDenied):
        edits.draft(dead_letter_id=letter.pk, user=lea)
    give(lea, "edit_payload")

    draft = edits.draft(dead_letter_id=letter.pk, user=lea)
    assert "hunter2!" not in draft.text
    edit(letter, draft.text.replace("Bonn", "Köln"), lea)

    assert payload_of(letter) == {"password": "hunter2!", "city": "Köln"}


def give(user, codename):
    from django.contrib.auth.models import Permission, User

    user.user_permissions.add(Permission.objects.get(codename=codename))
    user.__dict__.update(User.objects.get(pk=user.pk).__dict__)  # forget the permissions that are remembered
    for cache in ("_perm_cache", "_user_perm_cache", "_group_perm_cache"):
        user.__dict__.pop(cache, None)


def test_a_preview_shows_what_differs_and_no_secret(lea):
    letter = a_letter(payload='{"password": "hunter2!", "city": "Bonn"}')
    edit(letter, f'{{"password": "{MASK}#1", "city": "Köln"}}', lea)
    letter.refresh_from_db()

    text = f'{{"password": "brandnew", "city": "Ulm", "token": "{MASK}#1"}}'
    shown = edits.preview(dead_letter_id=letter.pk, text=text, user=lea, row_version=letter.row_version)

    present = [line.text.strip() for line in shown.from_present if line.kind != "same"]
    original = [line.text.strip() for line in shown.from_original if line.kind != "same"]
    assert any("Köln" in line for line in present)
    assert any("Bonn" in line for line in original)
    assert not any(secret in line for line in [*present, *original] for secret in ("hunter2!", "brandnew"))


@pytest.mark.parametrize("status", [1, 3, 4])
def test_what_is_out_or_closed_is_not_edited(lea, status):
    letter = a_letter(status=RecoveryStatus(status))

    with pytest.raises(BadChange):
        edit(letter, "{}", lea)
    assert not DeadLetterPayload.objects.exists()


@pytest.mark.parametrize("status", [0, 2])
def test_what_is_open_or_held_is_edited_and_stays_so(lea, status):
    letter = a_letter(status=RecoveryStatus(status))
    edit(letter, "{}", lea)

    letter.refresh_from_db()
    assert letter.recovery_status == status


def test_an_event_of_a_perspective_is_a_fact_and_not_edited(lea):
    letter = a_letter(source_table="wh_perspective_events")

    with pytest.raises(BadChange, match="an event says what happened"):
        edit(letter, "{}", lea)


def test_a_superseded_letter_is_not_edited(lea):
    with pytest.raises(BadChange, match="a later dead letter has taken its place"):
        edit(a_letter(superseded_by=uuid4()), "{}", lea)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": ]', "line 1, column 7"),
        ("[" * 101 + "]" * 101, "deeper than 100 levels"),
        ('{"a": Infinity}', "no JSON"),
        ("1" * 20_001, "digits"),
        ('{"order_id": "42"}', "nothing was changed"),
        (f'{{"password": "{MASK}"}}', "hides nothing"),
    ],
)
def test_what_could_not_be_sent_is_refused_with_its_reason(lea, text, problem):
    with pytest.raises(BadChange, match=problem) as raised:
        edit(a_letter(payload='{"order_id": "42"}'), text, lea)
    assert raised.value.field == "payload"


def test_a_payload_beyond_the_limit_is_refused(lea, configure):
    configure(MAX_PAYLOAD_BYTES=100, OFFLOAD_PAYLOAD_BYTES=50)

    with pytest.raises(BadChange, match="cannot be sent"):
        edit(a_letter(), json.dumps("x" * 200), lea)


def test_what_json_columns_cannot_hold_is_kept_as_bytes(lea):
    letter = a_letter()
    edit(letter, '{"a": "\\u0000", "n": 1e3}', lea)

    letter.refresh_from_db()
    assert bytes(letter.envelope_raw) == b'{"a":"\\u0000","n":1e3}'


def test_an_edit_needs_a_reason(lea):
    with pytest.raises(BadChange) as raised:
        edit(a_letter(), "{}", lea, reason=" ")
    assert raised.value.field == "reason"


@pytest.mark.parametrize("group", ["Operators", "Viewers", None])
def test_only_those_who_may_edit(group):
    user, letter = a_user("ann", group), a_letter()

    with pytest.raises(PermissionDenied):
        edit(letter, "{}", user)
    with pytest.raises(PermissionDenied):
        restore(letter, 1, user)
    with pytest.raises(PermissionDenied):
        edits.preview(dead_letter_id=letter.pk, text="{}", user=user, row_version=1)
    assert not OperatorAction.objects.exists()


def test_what_is_not_there_says_so(lea):
    letter = a_letter()
    with pytest.raises(NoSuchVersion):
        restore(letter, 7, lea)
    letter.delete()
    with pytest.raises(NoSuchLetter):
        triage.edit(user=lea, dead_letter_id=letter.pk, text="{}", reason="x", row_version=1)
    assert not DeadLetterPayload.objects.exists()


def test_a_letter_has_only_so_many_versions(lea, monkeypatch):
    monkeypatch.setattr(edits, "MAX_VERSIONS", 2)
    letter = a_letter()
    edit(letter, "1", lea)

    with pytest.raises(BadChange, match="no room"):
        edit(letter, "2", lea)


def test_unreadable_bytes_become_a_payload(lea, sql):
    letter = a_letter(source_table="broker", cause="unreadable")
    set_raw(sql, letter, b"\xff\xfe password=hunter2!")

    draft = edits.draft(dead_letter_id=letter.pk, user=lea)
    assert (draft.is_json, "hunter2!" in draft.text) == (False, False)
    edit(letter, '{"order_id": "42"}', lea)

    letter.refresh_from_db()
    assert (payload_of(letter), letter.envelope_raw) == ({"order_id": "42"}, None)
    assert bytes(DeadLetterPayload.objects.get(version=1).envelope_raw) == b"\xff\xfe password=hunter2!"


def test_versions_are_compared_without_their_secrets(lea):
    letter = a_letter(payload='{"city": "Bonn", "password": "hunter2!"}')
    edit(letter, '{"city": "Ulm", "password": "another"}', lea)

    lines = edits.compare(dead_letter_id=letter.pk, version=2, with_version=1, user=lea, max_bytes=10_000)
    told = [line.text.strip() for line in lines if line.kind in ("added", "removed")]
    assert sorted(told) == ['"city": "Bonn",', '"city": "Ulm",']


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


# --- what is sent after an edit


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


def test_what_is_edited_after_it_was_frozen_is_skipped_by_the_run(picky, lea):
    letter = died()
    run_id = runs.prepare(user=lea, scope=Letters(ids=[letter.pk]))
    edit(letter, '{"order": 43}', lea)
    runs.start(user=lea, run_id=run_id, plan=Plan())
    for _ in range(5):
        step_run(run_id)

    assert RecoveryItem.objects.values_list("state", "why").get() == ("skipped", "changed since frozen")
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.PENDING
