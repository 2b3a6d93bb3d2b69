"""Edits of payloads: versions, masks and refusals."""

import json
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied

from deadletters import triage
from deadletters.models import DeadLetterPayload, OperatorAction, RecoveryStatus
from deadletters.triage import edits
from deadletters.words.errors import BadChange, NoSuchLetter, NoSuchVersion
from queues.words.redaction import MASK
from tests.db.editing import edit, payload_of, restore, set_raw
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


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
