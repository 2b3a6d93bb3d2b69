"""The search inside payloads: explicit, bounded, newest first, and blind to what is masked."""

import string
from random import Random

import pytest

from deadletters.queries import payloads
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

BIG = (
    '{"id": 1970670598291982291, "in": {"list": [9007199254740995]}, '
    '"note": "Zoë \\"quoted\\"", "card_number": "4242 1111"}'
)


def found(page, text):
    return page.get("/letters/", {"payload": text}).content.decode()


@pytest.mark.parametrize("text", ["1970670598291982291", "9007199254740995", "zoë", '"quoted"'])
def test_p3_an_exact_number_or_text_in_a_payload_finds_its_letter(page, text):
    letter, other = a_letter(payload=BIG), a_letter()

    content = found(page, text)
    assert str(letter.pk) in content
    assert str(other.pk) not in content


@pytest.mark.parametrize("text", ["4242 1111", "1970670598291982290", "100%", "event_data"])
def test_what_is_masked_or_not_there_is_not_found(page, text):
    letter = a_letter(payload=BIG)

    assert str(letter.pk) not in found(page, text)


def test_a_text_that_is_too_short_is_refused(page):
    answer = page.get("/letters/", {"payload": "42"})

    assert answer.status_code == 400
    assert "at least 3 characters" in answer.content.decode()


def test_the_search_says_how_far_it_looked(page, monkeypatch):
    monkeypatch.setattr(payloads, "SEARCHED", 1)
    older, newer = a_letter(payload=BIG), a_letter(payload=BIG)

    content = found(page, "1970670598291982291")
    assert str(newer.pk) in content
    assert str(older.pk) not in content
    assert "newest 1 of them only" in content


def test_other_filters_are_applied_before_the_newest_are_counted(page, monkeypatch):
    monkeypatch.setattr(payloads, "SEARCHED", 1)
    mine, _ = a_letter(payload=BIG, message_type="shop.Mine"), a_letter(payload=BIG)

    content = page.get("/letters/", {"payload": "9007199254740995", "type": "shop.Mine"}).content.decode()
    assert str(mine.pk) in content


def test_a_payload_that_is_too_large_is_passed_over_and_one_nested_deep_is_read_as_far_as_it_is_shown(page):
    deep = a_letter(payload="[" * 3000 + "77777" + "]" * 3000)
    noise = "".join(Random(1).choices(string.ascii_letters + string.digits, k=200_000))  # pressed, it stays large
    large = a_letter(payload=f'{{"n": 77777, "noise": "{noise}"}}')

    content = found(page, "77777")
    assert str(large.pk) not in content
    assert str(deep.pk) in content
