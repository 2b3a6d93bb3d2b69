"""The pages on which a payload is edited, compared and restored, and a letter purged."""

import json
import re

import pytest
from django.urls import reverse

from deadletters import triage
from deadletters.models import DeadLetter, LegalHold, OperatorAction, RecoveryStatus
from deadletters.store.recovery import recover
from deadletters.views import edits as views
from queues.models import InboxMessage
from queues.words.redaction import MASK
from tests.addresses import address
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db

PAYLOAD = '{"password": "hunter2!", "city": "Bonn"}'


@pytest.fixture
def lea(db):
    return a_user("lea", "Leads")


@pytest.fixture
def lead(signed_in, lea):
    """A lead's browser."""
    return signed_in(lea)


def form_of(response):
    """Return the hidden fields of the page's form, as a browser sends them."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', response.content.decode()))


def send(lead, letter, text, step, form, reason="the city was wrong"):
    """Send the form, and return the page that it leads to: the difference, or the letter."""
    here = address("edit", letter)
    return lead.post(here, {**form, "text": text, "reason": reason, "step": step}, follow=True)


def typed(city):
    return f'{{"password": "{MASK}#1", "city": "{city}"}}'


def payload_of(letter):
    return json.loads(DeadLetter.objects.get(pk=letter.pk).envelope)["event_data"]


def test_the_form_holds_the_payload_masked(lead):
    letter = a_letter(payload=PAYLOAD)

    content = lead.get(address("edit", letter)).content.decode()
    assert "hunter2!" not in content
    assert f"{MASK}#1" in content
    assert "Bonn" in content


def test_the_difference_is_shown_before_anything_is_saved(lead):
    letter = a_letter(payload=PAYLOAD)
    form = form_of(lead.get(address("edit", letter)))

    shown = send(lead, letter, typed("Köln"), "preview", form)
    content = shown.content.decode()
    assert shown.status_code == 200
    assert "<ins>+   &quot;city&quot;: &quot;Köln&quot;</ins>" in content
    assert "Bonn" in content
    assert "hunter2!" not in content
    assert payload_of(letter)["city"] == "Bonn"

    saved = send(lead, letter, typed("Köln"), "save", form_of(shown))
    assert saved.redirect_chain[-1] == (address("letter", letter), 302)
    assert payload_of(letter) == {"password": "hunter2!", "city": "Köln"}
    assert not InboxMessage.objects.exists()


def test_save_and_recover_does_both(lead):
    letter = a_letter(payload=PAYLOAD)
    shown = send(lead, letter, typed("Köln"), "preview", form_of(lead.get(address("edit", letter))))

    said = send(lead, letter, typed("Köln"), "recover", form_of(shown)).content.decode()

    assert "Saved as version 2. It was sent." in said
    assert json.loads(InboxMessage.objects.get().event_data)["city"] == "Köln"


def test_a_text_whose_difference_was_not_shown_is_not_saved(lead):
    letter = a_letter(payload=PAYLOAD)
    form = form_of(lead.get(address("edit", letter)))

    for step in ("save", "recover", "explode"):
        response = send(lead, letter, typed("Ulm"), step, form)
        assert response.status_code == 200
        assert "Difference to the present payload" in response.content.decode()
    shown = send(lead, letter, typed("Ulm"), "preview", form)
    send(lead, letter, typed("Wien"), "save", form_of(shown))
    assert payload_of(letter)["city"] == "Bonn"
    assert not OperatorAction.objects.exists()


def test_a_reason_that_is_missing_is_asked_for_beside_the_difference(lead):
    letter = a_letter(payload=PAYLOAD)
    shown = send(lead, letter, typed("Köln"), "preview", form_of(lead.get(address("edit", letter))), "")

    asked = send(lead, letter, typed("Köln"), "save", form_of(shown), "")
    assert asked.status_code == 422
    assert "Difference to the present payload" in asked.content.decode()
    assert send(lead, letter, typed("Köln"), "save", form_of(asked)).redirect_chain


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ('{"a": }', "why", "no JSON at line 1, column 7"),
        (f'{{"note": "{MASK}#1"}}', "why", "where its value would be shown"),
        ('{"a": 1}', "", "Reason must say why"),
    ],
)
def test_what_cannot_be_kept_is_422_with_what_was_typed(lead, text, reason, said):
    letter = a_letter(payload=PAYLOAD)
    form = form_of(lead.get(address("edit", letter)))
    shown = send(lead, letter, text, "preview", form, reason)
    response = shown if shown.status_code == 422 else send(lead, letter, text, "save", form_of(shown), reason)

    content = response.content.decode()
    assert response.status_code == 422
    assert said in content
    assert 'aria-invalid="true"' in content
    assert text.replace('"', "&quot;") in content


def test_a_form_on_a_payload_that_somebody_changed_is_409_and_keeps_what_was_typed(lead, lea):
    letter = a_letter(payload=PAYLOAD)
    shown = send(lead, letter, typed("Köln"), "preview", form_of(lead.get(address("edit", letter))))
    triage.edit(user=lea, dead_letter_id=letter.pk, text='{"city": "Ulm"}', reason="first", row_version=1)

    response = send(lead, letter, typed("Köln"), "save", form_of(shown))
    content = response.content.decode()
    assert response.status_code == 409
    assert "Somebody changed the payload meanwhile" in content
    assert "Köln" in content
    assert payload_of(letter) == {"city": "Ulm"}


def test_a_note_in_between_does_not_make_a_form_stale(lead, lea):
    letter = a_letter(payload=PAYLOAD)
    shown = send(lead, letter, typed("Köln"), "preview", form_of(lead.get(address("edit", letter))))
    triage.change_letter(dead_letter_id=letter.pk, user=lea, changes={"owner": "lea"})

    assert send(lead, letter, typed("Köln"), "save", form_of(shown)).redirect_chain
    assert payload_of(letter)["city"] == "Köln"


def test_a_letter_that_is_out_by_now_is_not_edited(lead):
    letter = a_letter(payload=PAYLOAD)
    shown = send(lead, letter, typed("Köln"), "preview", form_of(lead.get(address("edit", letter))))
    recover(letter.pk, "ann")

    response = send(lead, letter, typed("Köln"), "save", form_of(shown))
    assert response.status_code == 422
    assert "while the letter is recovering" in response.content.decode()


@pytest.mark.parametrize(
    "fields",
    [{"source_table": "wh_perspective_events"}, {"status": RecoveryStatus.RECOVERED}, {"envelope_bytes": 10**6}],
)
def test_what_is_not_edited_here_says_why_and_offers_no_form(lead, fields):
    response = lead.get(address("edit", a_letter(**fields)))

    assert response.status_code == 200
    assert "<textarea" not in response.content.decode()
    assert 'role="alert"' in response.content.decode()


def test_a_page_lays_out_only_so_many_bytes(lead, monkeypatch):
    monkeypatch.setattr(views, "MAX_EDITED_BYTES", 10)
    letter = a_letter(envelope_bytes=40)

    content = lead.get(address("edit", letter)).content.decode()
    assert "at most 10 are edited" in content
    assert f"dead_letters edit {letter.pk} --show" in content


def test_bytes_that_are_no_json_are_shown_as_text_to_write_anew(lead):
    letter = a_letter(source_table="broker")
    DeadLetter.objects.filter(pk=letter.pk).update(envelope_raw=b"\xff<script>password=hunter2!", envelope_bytes=26)

    content = lead.get(address("edit", letter)).content.decode()
    assert "is no JSON" in content
    assert "<script>password" not in content
    assert "hunter2!" not in content


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_payload_that_was_edited_since_the_page_was_read_is_not_sent_unseen(page, lea, headers):
    letter = a_letter(payload=PAYLOAD)
    shown = page.get(address("letter", letter)).content.decode()
    triage.edit(user=lea, dead_letter_id=letter.pk, text="{}", reason="someone else", row_version=1)
    assert 'name="version" value="1"' in shown

    stale = page.post(address("recover", letter), {"death": "1", "version": "1"}, headers=headers)
    assert stale.status_code == 409
    assert "Its payload was edited since" in stale.content.decode()
    assert not InboxMessage.objects.exists()
    page.post(address("recover", letter), {"death": "1", "version": "2"}, headers=headers)
    assert InboxMessage.objects.exists()


def test_a_letter_whose_message_has_another_id_by_now_shows_both(page, lea):
    letter = a_letter(payload=PAYLOAD)
    triage.edit(user=lea, dead_letter_id=letter.pk, text='{"city": "Ulm"}', reason="moved", row_version=1)
    recover(letter.pk, "ann")
    sent = DeadLetter.objects.get()

    assert sent.source_id != letter.source_id
    content = page.get(address("letter", letter)).content.decode()
    assert str(letter.source_id) in content
    assert str(sent.source_id) in content
    exported = json.loads(b"".join(page.get(address("export_letter", letter))))
    assert (exported["original_message_id"], exported["payload_version"]) == (str(letter.source_id), 2)


@pytest.fixture
def edited(lea):
    letter = a_letter(payload=PAYLOAD)
    for number, city in enumerate(("Köln", "Ulm"), 1):
        triage.edit(user=lea, dead_letter_id=letter.pk, text=typed(city), reason=f"to {city}", row_version=number)
    return DeadLetter.objects.get()


def test_versions_are_listed_with_who_and_why(page, edited):
    content = page.get(address("letter", edited)).content.decode()

    for told in ("Version 1", "Version 2", "Version 3", "lea", "to Köln", "to Ulm", "the original", "present"):
        assert told in content
    assert "Edited the payload: version 1 → 2" in content


def test_a_letter_that_was_never_edited_lists_no_versions(page):
    assert "Version 1" not in page.get(address("letter", a_letter())).content.decode()


def test_a_version_is_compared_with_its_neighbour_or_another(page, edited):
    neighbour = page.get(address("version", edited, 3)).content.decode()
    original = page.get(address("version", edited, 3), {"with": "1"}).content.decode()

    assert ("Köln" in neighbour, "Bonn" in neighbour) == (True, False)
    assert ("Köln" in original.partition("Versions")[0], "Bonn" in original) == (False, True)
    assert "hunter2!" not in neighbour + original
    assert page.get(address("version", edited, 9)).status_code == 404
    assert page.get(address("version", edited, 2), {"with": "7"}).status_code == 200


def test_an_operator_is_offered_neither_edit_nor_purge_nor_restore(page, edited):
    for here in (address("letter", edited), address("version", edited, 1)):
        content = page.get(here).content.decode()
        assert address("edit", edited) not in content
        assert address("purge", edited) not in content
        assert "Put this version back" not in content


def test_a_version_is_put_back_from_its_page(lead, edited):
    form = form_of(lead.get(address("version", edited, 1)))
    assert lead.post(address("restore", edited, 1), {**form, "reason": ""}).status_code == 422

    response = lead.post(address("restore", edited, 1), {**form, "reason": "it was right"})
    assert response.headers["Location"] == address("letter", edited)
    assert payload_of(edited)["city"] == "Bonn"
    assert lead.post(address("restore", edited, 1), {**form, "reason": "again"}).status_code == 409
    assert lead.post(address("restore", edited, 99), {**form, "reason": "x"}).status_code == 404


def test_a_purge_asks_first_and_needs_a_reason(lead):
    letter = a_letter()
    content = lead.get(address("purge", letter)).content.decode()
    assert "removed for good" in content
    form = form_of(lead.get(address("purge", letter)))

    assert lead.post(address("purge", letter), form).status_code == 422
    assert DeadLetter.objects.exists()
    response = lead.post(address("purge", letter), {**form, "reason": "asked to"})
    assert response.headers["Location"] == reverse("deadletters:letters")
    assert "is gone" in lead.get("/letters/").content.decode()
    assert not DeadLetter.objects.exists()
    assert OperatorAction.objects.get().reason == "asked to"
    assert lead.get(address("purge", letter)).status_code == 404


def test_a_purge_that_is_refused_says_why(lead):
    letter = a_letter()
    form = form_of(lead.get(address("purge", letter)))
    LegalHold.objects.create(dead_letter_id=letter.pk, reason="court", placed_by="lea")

    response = lead.post(address("purge", letter), {**form, "reason": "asked to"})
    assert response.status_code == 409
    assert "a legal hold keeps it" in response.content.decode()
    assert lead.post(address("purge", letter), {"reason": "x", "row_version": "7"}).status_code == 409
    assert DeadLetter.objects.exists()


@pytest.mark.parametrize("name", ["edit", "purge"])
def test_a_letter_that_is_not_there_is_404(lead, name):
    letter = a_letter()
    DeadLetter.objects.all().delete()

    assert lead.get(address(name, letter)).status_code == 404
    assert lead.post(address(name, letter), {"reason": "x"}).status_code == 404


def test_a_letter_tells_its_commands_to_those_who_may(page, lead):
    letter = a_letter()

    content = page.get(address("letter", letter)).content.decode()
    assert f"python manage.py dead_letters recover {letter.pk}" in content
    assert f"dead_letters hold {letter.pk}" in content
    assert f"dead_letters purge {letter.pk}" not in content
    assert f"dead_letters purge {letter.pk}" in lead.get(address("letter", letter)).content.decode()
