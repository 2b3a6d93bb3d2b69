"""The list: newest first, whole with equal times, and what its rows say."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deadletters.models import RecoveryStatus
from deadletters.templatetags.deadletters import without_module
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX
from tests.web.listing import found

pytestmark = pytest.mark.django_db


def walk(page, **parameters):
    """Return the ids of all pages, following "Older"."""
    ids, after = [], ""
    while True:
        response = page.get("/letters/", {**parameters, "after": after})
        shown = response.context["page"]
        ids += [row.letter.pk for row in shown.rows]
        if shown.next is None:
            return ids
        after = str(shown.next)


def test_the_newest_come_first(page):
    old, new = a_letter(dead_lettered_at=NOON), a_letter(dead_lettered_at=NOON + timedelta(seconds=1))

    assert found(page) == [new.pk, old.pk]


def test_pages_lose_and_repeat_nothing_with_equal_times_and_microseconds(page):
    at = NOON.replace(microsecond=123_456)
    times = [at] * 30 + [at + timedelta(microseconds=1)] * 15 + [at - timedelta(microseconds=1)] * 15
    made = {a_letter(dead_lettered_at=moment).pk for moment in times}

    walked = walk(page, size="25")
    assert len(walked) == 60
    assert set(walked) == made


def test_pages_stay_whole_while_new_letters_arrive(page):
    first = [a_letter(dead_lettered_at=NOON + timedelta(seconds=n)).pk for n in range(30)]
    shown = page.get("/letters/", {"size": "25"}).context["page"]
    a_letter(dead_lettered_at=NOON + timedelta(hours=1))

    rest = found(page, size="25", after=str(shown.next))
    assert [row.letter.pk for row in shown.rows] + rest == first[::-1]


def test_the_empty_list_says_which_kind_of_empty_it_is(page):
    assert "Nothing has died." in page.get("/letters/").content.decode()

    a_letter()
    content = page.get("/letters/", {"q": "unheard of"}).content.decode()
    assert "No dead letter matches." in content
    assert "Clear the filter" in content


def test_superseded_letters_are_not_listed(page):
    survivor = a_letter()
    a_letter(source_id=survivor.source_id, superseded_by=survivor.pk)

    assert found(page) == [survivor.pk]


def test_a_row_says_what_it_is_in_words(page):
    a_letter(status=RecoveryStatus.RECOVERING, deaths=2, subjects=[("order", "42"), ("customer", "7"), ("sku", "x")])
    a_letter(error=None, status=RecoveryStatus.PERMANENTLY_FAILED)
    a_letter(error="")

    content = page.get("/letters/").content.decode()
    for said in ("Recovering", "died 2×", "+2", "Given up", "no reason recorded", "empty reason", "Inbox"):
        assert said in content


def test_secrets_in_an_error_line_are_masked(page):
    a_letter(error="HTTPError: https://user:hunter2@pay.example/ said no, token=abcdef123")

    content = page.get("/letters/").content.decode()
    assert "hunter2" not in content
    assert "abcdef123" not in content


def test_the_number_of_queries_does_not_depend_on_the_rows(page):
    counts = []
    for _ in range(2):
        for _ in range(12):
            a_letter(subjects=[("order", "1"), ("order", "2")])
        page.get("/letters/")
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page.get("/letters/")
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] <= 11


def test_the_list_reads_no_heavy_column(page):
    a_letter()

    with CaptureQueriesContext(connection) as queries:
        page.get("/letters/", {"q": "no such", "subject": "order:42"})
        page.get("/letters/")
    read = " ".join(query["sql"] for query in queries)
    for column in ("envelope", "error_text", "metadata", "source_row", "failure_detail"):
        assert f'"{column}"' not in read


def test_what_a_row_says_are_links_that_narrow_the_list(page):
    a_letter(failure_reason=4, source_table="wh_outbox", destination="topic/eu", owner="vera")

    content = page.get("/letters/", {"q": "no such", "size": "25"}).content.decode()
    for link in ("reason=validation_error&amp;q=no+such", "source=outbox&amp;q=no+such", "owner=vera&amp;q=no+such"):
        assert f'href="/letters/?{link}&amp;size=25"' in content
    assert "topic/eu" in content


def test_htmx_gets_the_results_only_and_a_history_restore_the_page(page):
    a_letter()

    fragment = page.get("/letters/", headers=HTMX).content.decode()
    assert "<html" not in fragment
    assert 'id="results"' in fragment
    restored = page.get("/letters/", headers={**HTMX, "HX-History-Restore-Request": "true"}).content.decode()
    assert "<html" in restored


def test_a_row_shows_the_errors_type_without_its_module_and_the_whole_line_on_hover(page):
    a_letter(error="shop.errors.CardDeclined: 51")

    shown = page.get("/letters/").content.decode()

    assert ">CardDeclined: 51<" in shown
    assert 'title="shop.errors.CardDeclined: 51"' in shown


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("psycopg.errors.UniqueViolation [23505]: dup", "UniqueViolation [23505]: dup"),
        ("shop.errors.CardDeclined: no", "CardDeclined: no"),
        ("shop.errors.CardDeclined", "CardDeclined"),
        ("ValueError: a.B: c", "ValueError: a.B: c"),
        ("see shop.Errors: no type", "see shop.Errors: no type"),
    ],
)
def test_an_error_line_is_shown_without_the_module_of_its_type(line, short):
    assert without_module(line) == short
