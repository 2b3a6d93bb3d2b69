"""Reveals: one masked value, for a reason, written down before it is shown, and nowhere else."""

import json

import pytest
from django.db import transaction
from django.urls import reverse

from deadletters import triage
from deadletters.models import DeadLetter, KeptForm, OperatorAction
from deadletters.words.errors import BadChange
from tests.factories import a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

PAYLOAD = {
    "order": "42",
    "card": {"card_number": 4242424242424242424242, "pin": 0.10000000000000001},
    "a/b~c": [{"password": "hunter2"}],
    "note": "the token=abcdef1234 was sent",
}
METADATA = {"headers": {"Authorization": "Basic c2VjcmV0", "x-trace": "1"}}


@pytest.fixture
def letter():
    text = json.dumps(PAYLOAD).replace("0.1,", "0.10000000000000001,")
    return a_letter(payload=text, metadata=json.dumps(METADATA))


@pytest.fixture
def lead(signed_in):
    return signed_in(a_user("lea", "Leads"))


def address(letter):
    return reverse("deadletters:reveal", args=[letter.pk])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("payload:/card/card_number", "4242424242424242424242"),
        ("payload:/a~1b~0c/0/password", "hunter2"),
        ("payload:/note", "the token=abcdef1234 was sent"),
        ("header:/Authorization", "Basic c2VjcmV0"),
        ("bytes", "hunter2"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_one_value_is_shown_whole_and_written_down_without_it(lead, letter, field, value, headers):
    response = lead.post(address(letter), {"field": field, "reason": "the bank asks"}, headers=headers, follow=True)

    assert response.status_code == 200
    shown = response.content.decode()
    assert value in shown.replace("\n", "") or field == "bytes"
    assert "no-store" in response.headers["Cache-Control"]
    action = OperatorAction.objects.get()
    assert (action.action, action.actor, action.reason) == ("reveal", "lea", "the bank asks")
    assert action.dead_letter_id == letter.pk
    assert value not in json.dumps(action.after)
    assert ("</html>" in shown) == (not headers)


def test_the_address_of_a_value_shows_it_once_and_to_its_person_only(lead, signed_in, letter):
    sent = {"field": "payload:/a~1b~0c/0/password", "reason": "the bank asks"}
    here = lead.post(address(letter), sent).headers["Location"]
    assert "password" not in here

    for browser in (signed_in(a_user("vera", "Leads")), lead):
        seen = browser.get(here)
        assert ("hunter2" in seen.content.decode()) == (browser is lead)
    again = lead.get(here)
    assert again.status_code == 404
    assert "It was shown once" in again.content.decode()
    assert "hunter2" not in again.content.decode()
    assert OperatorAction.objects.count() == 1
    assert not KeptForm.objects.exists()
    assert lead.get(address(letter)).headers["Location"] == reverse("deadletters:letter", args=[letter.pk])


def test_the_page_offers_what_is_masked_and_stays_masked_after_a_reveal(lead, letter):
    page = reverse("deadletters:letter", args=[letter.pk])
    offered = lead.get(page).content.decode()

    for place in ("/card/card_number", "/card/pin", "/a~1b~0c/0/password", "/note"):
        assert f'value="payload:{place}"' in offered
    assert 'value="header:/Authorization"' in offered
    assert 'value="payload:/order"' not in offered
    lead.post(address(letter), {"field": "payload:/a~1b~0c/0/password", "reason": "x"}, follow=True)
    assert "hunter2" not in lead.get(page).content.decode()


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("payload:/order", "is not masked"),
        ("payload:/nowhere", "is not there"),
        ("payload:/a~1b~0c/7/password", "is not there"),
        ("payload:/a~1b~0c/-1", "is not there"),
        ("payload:card", "is no place"),
        ("header:/x-trace", "is not masked"),
        ("source_row", "is none that can be revealed"),
        ("", "is none that can be revealed"),
        ("payload:/" + "x" * 9_000, "is not there"),
        ("payload:/\x00", "is not there"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_nothing_else_is_revealed_and_nothing_is_written_down(lead, letter, field, said, headers):
    response = lead.post(address(letter), {"field": field, "reason": "x"}, headers=headers)

    assert response.status_code == 422
    assert said in response.content.decode()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("reason", ["", "  \n "])
def test_without_a_reason_nothing_is_revealed(lead, letter, reason):
    response = lead.post(address(letter), {"field": "payload:/a~1b~0c/0/password", "reason": reason})

    assert response.status_code == 422
    assert "hunter2" not in response.content.decode()
    assert "must say why" in response.content.decode()
    assert not OperatorAction.objects.exists()


def test_a_value_that_cannot_be_written_down_is_not_revealed(letter, monkeypatch):
    def fails(**fields):
        raise RuntimeError("no audit")

    monkeypatch.setattr("deadletters.triage.reveals.audit.record", fails)

    with pytest.raises(RuntimeError), transaction.atomic():
        triage.reveal(
            dead_letter_id=letter.pk, user=a_user("lea", "Leads"), field="payload:/card/pin", reason="the bank asks"
        )


def test_who_may_not_reveal_is_offered_nothing(page, letter):
    shown = page.get(reverse("deadletters:letter", args=[letter.pk])).content.decode()

    assert "You lack the right to reveal what is masked." in shown
    assert address(letter) not in shown
    assert page.post(address(letter), {"field": "bytes", "reason": "x"}).status_code == 403


def test_a_hostile_value_is_characters(lead):
    hostile = "<script>alert(1)</script>\x1b[31m"
    letter = a_letter(payload=json.dumps({"password": hostile, "secret": {"<u>": [hostile]}}))

    for field in ("payload:/password", "payload:/secret", "bytes"):
        for headers in ({}, HTMX):
            sent = {"field": field, "reason": "<i>x</i>"}
            shown = lead.post(address(letter), sent, headers=headers, follow=True).content.decode()
            assert "<script>alert" not in shown
            assert "<u>" not in shown
            assert "\x1b" not in shown


def test_the_exact_bytes_are_dumped_where_they_are_kept(lead):
    letter = a_letter()
    DeadLetter.objects.update(envelope_raw=b'\x00\xff{"n":1}' + b"x" * 5_000)

    shown = lead.post(address(letter), {"field": "bytes", "reason": "x"}, follow=True).content.decode()
    assert "00000000  00 ff 7b 22 6e 22 3a 31 7d" in shown
    assert "00000ff0" in shown
    assert "00001000" not in shown


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"{", b"[" * 500 + b"]" * 500])
def test_a_payload_that_cannot_be_read_says_so(lead, raw):
    letter = a_letter()
    DeadLetter.objects.update(envelope_raw=raw)

    response = lead.post(address(letter), {"field": "payload:/card", "reason": "x"})
    assert response.status_code == 422
    assert "download it" in response.content.decode()


def test_a_large_payload_is_not_read_for_one_value(letter, monkeypatch):
    monkeypatch.setattr("deadletters.triage.reveals.MAX_READ", 10)

    with pytest.raises(BadChange, match="too large"):
        triage.reveal(
            dead_letter_id=letter.pk, user=a_user("lea", "Leads"), field="payload:/card/pin", reason="the bank asks"
        )
