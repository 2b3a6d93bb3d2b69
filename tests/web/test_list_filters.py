"""The list's filters and searches: what is looked for is found, and what is not understood is refused."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from deadletters.models import RecoveryStatus
from deadletters.queries import letters
from deadletters.words.filters import LetterFilter
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX
from tests.web.listing import found

pytestmark = pytest.mark.django_db


def test_a_filter_finds_its_letters_only(page):
    wanted = a_letter(
        message_type="billing.ChargeCard",
        failure_reason=4,
        status=RecoveryStatus.HELD,
        source_table="wh_outbox",
        error="CardDeclined: no funds",
        subjects=[("order", "42")],
        dead_lettered_at=NOON,
    )
    a_letter(dead_lettered_at=NOON + timedelta(hours=2), subjects=[("order", "43")])

    for parameters in (
        {"type": "billing.ChargeCard"},
        {"reason": "validation_error"},
        {"status": "held"},
        {"source": "outbox"},
        {"subject": "order:42"},
        {"q": "cARDdeclined"},
        {"q": "billing.charge"},
        {"until": "2026-01-15T13:00"},
        {"since": "2026-01-15T11:59:59+00:00", "until": "2026-01-15T12:00:01Z"},
    ):
        assert found(page, **parameters) == [wanted.pk], parameters


def test_since_counts_back_from_now(page):

    recent = a_letter(dead_lettered_at=timezone.now() - timedelta(minutes=59))
    a_letter(dead_lettered_at=timezone.now() - timedelta(minutes=61))

    assert found(page, since="1h") == [recent.pk]


def test_letters_that_died_again_and_those_of_other_sources_and_reasons_are_found(page):
    again = a_letter(deaths=2)
    foreign = a_letter(source_table="their_outbox", failure_reason=4711)
    a_letter()

    assert found(page, again="yes") == [again.pk]
    assert found(page, source="other") == [foreign.pk]
    assert found(page, reason="4711") == [foreign.pk]
    assert page.get("/letters/", {"again": "no"}).status_code == 400


def test_a_text_that_is_an_id_finds_letter_message_and_stream_exactly(page):
    stream = uuid4()
    letter = a_letter(stream_id=stream)
    a_letter(error=f"ValueError: {letter.pk} {letter.source_id} {stream}")

    for identity in (letter.pk, letter.source_id, stream, stream.hex, str(stream).upper()):
        assert found(page, q=str(identity)) == [letter.pk]


def test_like_wildcards_in_a_text_are_only_characters(page):
    percent = a_letter(error="ValueError: 100% wrong_")
    a_letter(error="ValueError: 1000 wrongs")

    assert found(page, q="100%") == [percent.pk]
    assert found(page, q="wrong_") == [percent.pk]
    assert found(page, q="\\") == []


def test_a_subject_may_hold_colons_and_anything_else(page):
    letter = a_letter(subjects=[("urn:x", "1"), ("order", "a:b&c=d #<é>")])

    content = page.get("/letters/", {"subject": "order:a:b&c=d #<é>"})
    assert [row.letter.pk for row in content.context["page"].rows] == [letter.pk]


def test_a_type_longer_than_its_index_is_compared_whole(page):
    long = a_letter(message_type="t" * 300)
    a_letter(message_type="t" * 299)

    assert found(page, type="t" * 300) == [long.pk]


@pytest.mark.parametrize(
    "query",
    [
        "since=0001-01-01T00:00%2B23:59",
        "until=9999-12-31T23:59:59-23:59",
        "stauts=open",
        "status=zombie",
        "status=open&status=held",
        "source=inbx",
        "reason=nope",
        "reason=4",
        "subject=order",
        "since=yesterday",
        "since=24",
        "until=2026-13-01",
        "since=99999d",
        "size=7",
        "size=abc",
        "after=xyz",
        "after=20260115T120000.000000_zz",
        "q=a%00b",
        "q=" + "x" * 201,
    ],
)
def test_what_is_not_understood_is_400_with_a_sentence_and_never_no_filter(page, query):
    a_letter(error="must not be shown")

    for headers in ({}, HTMX):
        response = page.get(f"/letters/?{query}", headers=headers)
        assert response.status_code == 400
        assert "That filter is not understood." in response.content.decode()
        assert "must not be shown" not in response.content.decode()
    assert page.get(f"/letters/newer?{query}").status_code == 400


def test_what_was_typed_stays_in_the_form_of_a_refused_filter(page):
    content = page.get("/letters/", {"q": "card <b>", "since": "yesterday", "status": "held"}).content.decode()

    assert 'value="card &lt;b&gt;"' in content
    assert 'value="yesterday"' in content
    assert '<option value="held" selected>' in content


def test_the_filter_says_itself(page):
    content = page.get("/letters/", {"status": "given_up", "q": "<b>", "since": "1h"}).content.decode()

    assert "Dead letters in state given up, with “&lt;b&gt;” in them, since 1 hour ago" in content


def test_empty_fields_of_the_form_are_no_filter_and_leave_the_address(page):
    letter = a_letter()

    response = page.get("/letters/?q=&status=&type=&since=2400h&until=", headers=HTMX)
    assert response.headers["HX-Push-Url"] == "/letters/?since=2400h"
    assert [row.letter.pk for row in response.context["page"].rows] == [] or letter


def test_a_text_is_looked_for_in_the_newest_only_and_the_page_says_so(page, monkeypatch):
    monkeypatch.setattr(letters, "SEARCHED", 2)
    a_letter(error="needle", dead_lettered_at=NOON)
    for _ in range(2):
        a_letter(error="hay", dead_lettered_at=NOON + timedelta(hours=1))

    response = page.get("/letters/", {"q": "needle"})
    assert response.context["page"].rows == []
    assert "Looked for in the newest 2 of them only." in response.content.decode()
    assert "in the newest 2" not in page.get("/letters/", {"q": "needle", "until": "2026-01-15T12:30"}).content.decode()


def test_of_letters_that_died_at_once_no_more_are_looked_through(page, monkeypatch):
    monkeypatch.setattr(letters, "SEARCHED", 2)
    for _ in range(4):
        a_letter(error="needle", dead_lettered_at=NOON)
    assert len(page.get("/letters/", {"q": "needle"}).context["page"].rows) == 2


def test_a_search_is_the_whole_filter_and_leads_to_its_one_address(page):
    wanted = a_letter(message_type="order.placed", failure_reason=4, error="boom bang")
    a_letter(message_type="order.placed", failure_reason=4, error="hush")
    search = "type:order.placed boom reason:validation_error since:99d bang"
    address = "/letters/?type=order.placed&reason=validation_error&q=boom+bang&since=99d"

    response = page.get("/letters/", {"search": search, "size": "25"})
    assert (response.status_code, response.headers["Location"]) == (302, f"{address}&size=25")
    fragment = page.get("/letters/", {"search": search.replace("since:99d", "")}, headers=HTMX)
    assert fragment.headers["HX-Push-Url"] == address.replace("&since=99d", "")
    assert [row.letter.pk for row in fragment.context["page"].rows] == [wanted.pk]
    assert 'value="type:order.placed reason:validation_error boom bang"' in fragment.content.decode()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"search": "stauts:open boom"}, "did you mean “status”?"),
        ({"search": "status:open status:held"}, "given more than once"),
        ({"search": "status:zombie"}, "“zombie” is no status"),
        ({"search": "boom", "status": "open"}, "“status” cannot stand beside it"),
        ({"search": "x" * 9_000}, "at most 8,000 characters"),
    ],
)
def test_a_search_that_is_not_understood_is_400_and_stays_in_the_box(page, parameters, said):
    a_letter(error="must not be shown")

    for headers in ({}, HTMX):
        response = page.get("/letters/", parameters, headers=headers)
        assert response.status_code == 400
        content = response.content.decode()
        assert said in content
        assert f'value="{parameters["search"][:8_000]}"' in content
        assert "must not be shown" not in content


def test_the_form_follows_a_changed_filter_and_is_left_alone_under_the_same(page):
    a_letter()
    here = {**HTMX, "HX-Current-URL": "http://testserver/letters/?status=open&size=25"}

    same = page.get("/letters/", {"status": "open", "after": "20260115T120000.000000_" + "0" * 32}, headers=here)
    other = page.get("/letters/", {"status": "held"}, headers=here)
    assert 'id="filters"' not in same.content.decode()
    assert 'id="filters" hx-swap-oob="true"' in other.content.decode()
    assert 'value="status:held"' in other.content.decode()


def test_each_part_of_the_filter_is_a_chip_with_a_link_without_it(page):
    content = page.get("/letters/", {"status": "held", "q": "a&b", "size": "25"}).content.decode()

    assert 'href="/letters/?q=a%26b&amp;size=25"' in content
    assert 'href="/letters/?status=held&amp;size=25"' in content
    assert "No longer filter by: with “a&amp;b” in them" in content


def test_letters_that_died_again_and_what_one_owns_are_lists(page):
    again = a_letter(deaths=2)
    mine = a_letter(owner="olga")
    a_letter(owner="olga the other")

    assert found(page, again="yes") == [again.pk]
    assert found(page, owner="olga") == [mine.pk]
    assert page.get("/letters/?again=no").status_code == 400


def test_a_query_string_is_what_the_filter_says():
    filters = LetterFilter.parse({"type": "a b&c", "subject": "order:é", "size": "25", "after": ""})

    assert filters.query() == "type=a+b%26c&subject=order%3A%C3%A9&size=25"
    assert filters.query(subject="") == "type=a+b%26c&size=25"
