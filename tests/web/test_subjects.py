"""Subjects: what most open letters are about, and everything about one, whatever its name holds."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

NAMES = [
    ("order", "42"),
    ("order", "a/b/../c"),
    ("order", ".."),
    ("order", ""),
    ("urn:x:order", "1"),
    ("order", "?a=b&c=d#e%2F%"),
    ("order", " é\t\u202e"),
    ("order", "<img src=x onerror=alert(1)>"),
    ("javascript", "alert(1)"),
    ("x" * 500, "y" * 500),
]


def link_to(page, letter):
    """Return where the subject on a letter's page leads to."""
    content = page.get(reverse("deadletters:letter", args=[letter.pk])).content.decode()
    return content.partition('<a class="subject" href="')[2].partition('"')[0].replace("&amp;", "&")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_leads_to_its_page_with_its_letters(page, name):
    letter = a_letter(subjects=[name])
    a_letter(subjects=[(name[0], name[1] + "2")])

    response = page.get(link_to(page, letter))
    assert response.status_code == 200
    subject = response.context["subject"]
    assert (subject.row.type, subject.row.id) == name
    assert [row.letter.pk for row in subject.letters] == [letter.pk]
    assert "<img src=x" not in response.content.decode()


def test_its_counts_are_exact_before_and_after_the_fold(page):
    for status in (0, 0, 2, 3):
        a_letter(subjects=[("order", "1")], status=status)
    counting.fold()
    a_letter(subjects=[("order", "1")], status=4)

    response = page.get("/subject/", {"type": "order", "id": "1"})
    assert response.context["subject"].row.by_status == {0: 2, 2: 1, 3: 1, 4: 1}
    assert '/letters/?status=held&amp;subject=order%3A1"' in response.content.decode()


def test_its_letters_are_paged_whole(page):
    made = [a_letter(subjects=[("order", "1")], dead_lettered_at=NOON + timedelta(minutes=n // 2)) for n in range(60)]

    first = page.get("/subject/", {"type": "order", "id": "1"}).context["subject"]
    rest = page.get("/subject/", {"type": "order", "id": "1", "after": str(first.next)}).context["subject"]
    shown = [row.letter.pk for row in [*first.letters, *rest.letters]]
    assert len(first.letters) == 50
    assert len(shown) == 60
    assert set(shown) == {letter.pk for letter in made}
    assert rest.next is None


def test_it_shows_streams_and_deaths_of_its_letters(page):
    stream = "00000000-0000-4000-8000-000000000001"
    letter = a_letter(subjects=[("order", "1")], stream_id=stream, deaths=3)
    a_letter(subjects=[("order", "1")], stream_id=stream, error="password=hunter2")
    a_letter(subjects=[("order", "2")], deaths=2)

    response = page.get("/subject/", {"type": "order", "id": "1"})
    subject = response.context["subject"]
    assert [(str(found), n) for found, n in subject.streams] == [(stream, 2)]
    assert len(subject.deaths.events) == 4
    content = response.content.decode()
    assert reverse("deadletters:letter", args=[letter.pk]) in content
    assert f"/letters/?stream={stream}" in content
    assert "hunter2" not in content


def test_the_first_page_shows_each_type_with_what_most_open_letters_are_about(page):
    for number in range(7):
        for _ in range(number + 1):
            a_letter(subjects=[("order", str(number)), ("customer", "7")])
    a_letter(subjects=[("gone", "1")], status=3)
    counting.fold()
    a_letter(subjects=[("order", "6")])  # not folded yet

    types = page.get("/subjects/").context["types"]
    assert [(found.type, len(found.rows)) for found in types] == [("customer", 1), ("order", 5)]
    assert [(row.id, row.open) for row in types[1].rows] == [("6", 8), ("5", 6), ("4", 5), ("3", 4), ("2", 3)]


def test_a_search_finds_beginnings_of_ids_and_a_whole_id_without_open_letters(page):
    for identity in ("A-1", "A-10", "B-1", "A%"):
        a_letter(subjects=[("order", identity)])
    a_letter(subjects=[("order", "A-2")], status=3)
    a_letter(subjects=[("line", "A-1")])
    counting.fold()

    def found(**parameters):
        return {(row.type, row.id) for row in page.get("/subjects/", parameters).context["page"].rows}

    assert found(q="A-1") == {("order", "A-1"), ("order", "A-10"), ("line", "A-1")}
    assert found(type="order", q="A-1") == {("order", "A-1"), ("order", "A-10")}
    assert found(type="order", q="A-2") == {("order", "A-2")}
    assert found(q="A%") == {("order", "A%")}
    assert found(q="a-1") == set()


def test_a_page_of_subjects_loses_and_repeats_nothing(page):
    for number in range(60):
        a_letter(subjects=[("order", str(number))])
    counting.fold()

    first = page.get("/subjects/", {"type": "order"}).context["page"]
    rest = page.get("/subjects/", {"type": "order", "after": str(first.next)}).context["page"]
    assert len({row.id for row in [*first.rows, *rest.rows]}) == 60
    assert rest.next is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/subjects/?nope=1", 400),
        ("/subjects/?after=x", 400),
        ("/subjects/?q=%00", 400),
        ("/subject/?type=order&id=1&after=x", 400),
        ("/subject/", 404),
        ("/subject/?id=1", 404),
        ("/subject/?type=a%00&id=1", 404),
        (f"/subject/?type=a&id={'x' * 1_001}", 404),
        ("/subject/?type=order&id=nothing", 200),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_is_not_understood_is_said(page, path, status, headers):
    assert page.get(path, headers=headers).status_code == status


def test_nothing_known_says_so(page):
    assert "No open letter is about anything known." in page.get("/subjects/").content.decode()


def test_pages_cost_the_same_queries_however_many_rows(page):
    counts = []
    for number in (1, 30):
        for n in range(number):
            a_letter(subjects=[("order", "1"), (f"kind{n}", "x")], dead_lettered_at=timezone.now())
        counting.fold()
        with CaptureQueriesContext(connection) as queries:
            page.get("/subject/", {"type": "order", "id": "1"})
            page.get("/subjects/")
            page.get("/subjects/", {"type": "order", "q": "1"})
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 30
