"""Letters put together by something else than their fault: exact links, honest numbers, the same however many."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from deadletters.models import RecoveryStatus
from deadletters.queries import regions, tallies
from deadletters.words.filters import reason_name
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

STREAM = "00000000-0000-4000-8000-000000000001"
GROUPINGS = ("type", "reason", "destination", "subject", "stream", "build")


def rows(page, **parameters):
    """Return {value: (open, total)} of the page that the parameters name."""
    response = page.get("/groups/", parameters)
    assert response.status_code == 200, response.content.decode()
    return {row.value: (row.open, row.total) for row in response.context["region"].value.rows}


def some_letters():
    """Make two letters that have all in common, one open, and one that has nothing in common with them."""
    alike = {"message_type": "shop.Pay", "destination": "billing", "stream_id": STREAM, "generation": "build-7"}
    for status in (0, 3):
        a_letter(failure_reason=2, status=status, subjects=[("order", "a/b c")], **alike)
    a_letter(message_type="shop.Ship", failure_reason=3, generation="build-8", subjects=[("order", "2")])
    counting.fold()


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("type", {"shop.Pay": (1, 2), "shop.Ship": (1, 1)}),
        ("destination", {"billing": (1, 2), "": (1, 1)}),
        ("subject", {"order:a/b c": (1, 2), "order:2": (1, 1)}),
        ("stream", {STREAM: (1, 2), "": (1, 1)}),
        ("build", {"build-7": (1, 2), "build-8": (1, 1)}),
    ],
)
def test_letters_are_put_together_by_what_they_share(page, by, expected):
    some_letters()

    assert rows(page, by=by) == expected


def test_each_number_leads_to_exactly_its_letters_and_so_does_the_run(page):
    some_letters()

    for by in GROUPINGS:
        shown = page.get("/groups/", {"by": by}).context["region"].value.rows
        for row in (each for each in shown if each.filters is not None):
            listed = [page.get(f"/letters/?{row.filters.query(status=status)}") for status in ("open", "")]
            assert [len(each.context["page"].rows) for each in listed] == [row.open, row.total], (by, row.value)
            sent = {"scope": "matching", "filter": row.filters.query(status="open")}
            run = page.get(page.post(reverse("deadletters:prepare_run"), sent).headers["Location"]).context["run"]
            assert run.frozen_count == row.open


def test_a_reason_is_named_as_filters_name_it(page):
    a_letter(failure_reason=2)
    a_letter(failure_reason=777)

    shown = page.get("/groups/", {"by": "reason"}).context["region"].value.rows
    assert {row.value for row in shown} == {reason_name(2), "777"}
    assert [row.filters.reason for row in shown] == [row.value for row in shown]


@pytest.mark.parametrize(
    ("field", "by", "value"),
    [
        ("message_type", "type", "t" * 600),
        ("destination", "destination", "d" * 600),
        ("destination", "destination", " odd "),
        ("destination", "destination", "amqp://u:hunter2@host/x"),
    ],
)
def test_what_no_filter_can_name_is_shown_without_a_link(page, field, by, value):
    a_letter(**{field: value})

    response = page.get("/groups/", {"by": by})
    (row,) = response.context["region"].value.rows
    assert row.filters is None
    assert "hunter2" not in response.content.decode()
    assert "Recover 1" not in response.content.decode()


def test_the_order_is_what_was_chosen(page):
    for minutes, kind, n in ((0, "a", 1), (5, "b", 3), (10, "c", 2)):
        for status in (0,) * n + (3,) * (4 - n if kind == "c" else 0):
            a_letter(message_type=kind, status=status, dead_lettered_at=NOON + timedelta(minutes=minutes))

    assert list(rows(page, by="type")) == ["c", "b", "a"]
    assert list(rows(page, by="type", sort="open")) == ["b", "c", "a"]
    assert list(rows(page, by="type", sort="total")) == ["c", "b", "a"]
    assert list(rows(page, by="type", q="B")) == ["b"]


def test_a_count_that_was_cut_says_so_and_names_no_number_to_recover(page, monkeypatch):
    monkeypatch.setattr(tallies, "OF_EACH", 2)
    for _ in range(3):
        a_letter(message_type="many")
    a_letter(message_type="few")

    response = page.get("/groups/", {"by": "type"})
    content = response.content.decode()
    assert rows(page, by="type")["many"][1] == 2
    assert "Counted in the newest 2 letters of each" in content
    assert "Recover 3+…" in content
    assert "Recover 1…" in content


def test_only_the_newest_letters_are_counted_where_no_index_helps_and_that_is_said(page, monkeypatch):
    monkeypatch.setattr(tallies, "NEWEST", 2)
    now = timezone.now()
    for hours, build in ((3, "old"), (2, "new"), (1, "new")):
        a_letter(generation=build, dead_lettered_at=now - timedelta(hours=hours))

    assert rows(page, by="build") == {"new": (2, 2)}
    assert "Counted in the newest 2 letters;" in page.get("/groups/", {"by": "build"}).content.decode()


def many_values(n=60):
    """Make n values of each grouping, each a minute younger and, in twos, with one letter more."""
    for place in range(n):
        for extra in range(1 + place % 3):
            a_letter(
                message_type=f"type-{place:03}",
                destination=f"place-{place:03}",
                stream_id=f"00000000-0000-4000-8000-{place:012}",
                generation=f"build-{place:03}",
                subjects=[("order", f"{place:03}")],
                status=RecoveryStatus.PENDING if extra < 2 else RecoveryStatus.RECOVERED,
                dead_lettered_at=NOON + timedelta(minutes=place, seconds=extra),
            )
    counting.fold()


def pages(page, **parameters):
    """Return the rows of each page of a grouping, following its links to the next one."""
    found, query = [], urlencode(parameters)
    while query is not None:
        response = page.get(f"/groups/?{query}")
        found.append(response.context["region"].value.rows)
        following = re.search(r'rel="next" href="/groups/\?([^"]+)"', response.content.decode())
        query = unescape(following[1]) if following else None
    return found


@pytest.mark.parametrize("sort", ["last_seen", "open", "total"])
@pytest.mark.parametrize("by", ["type", "destination", "subject", "stream", "build"])
def test_every_value_is_on_exactly_one_page_and_the_pages_are_in_order(page, by, sort):
    many_values()

    found = pages(page, by=by, sort=sort, size=25)
    rows_ = [row for rows in found for row in rows]
    assert [len(rows) for rows in found] == [25, 25, 10]
    assert len({row.value for row in rows_}) == 60
    key = {"last_seen": lambda row: row.newest_at, "open": lambda row: row.open, "total": lambda row: row.total}[sort]
    assert [key(row) for row in rows_] == sorted(map(key, rows_), reverse=True)


def test_a_text_is_looked_for_on_all_pages(page):
    many_values()

    assert [[row.value for row in rows] for rows in pages(page, by="type", q="-05", size=25)] == [
        [f"type-{place:03}" for place in range(59, 49, -1)]
    ]


def test_by_number_only_the_types_that_died_last_are_put_in_order_and_that_is_said(page, monkeypatch):
    monkeypatch.setattr(tallies, "RANKED", 2)
    many_values(4)

    content = page.get("/groups/", {"by": "type", "sort": "total"}).content.decode()
    assert list(rows(page, by="type", sort="total")) == ["type-002", "type-003"]
    assert "Of the 2 that died last." in content
    assert list(rows(page, by="type")) == ["type-003", "type-002", "type-001", "type-000"]


def test_of_more_subjects_than_are_put_in_order_it_is_said_how_many(page, monkeypatch):
    monkeypatch.setattr(tallies, "SUBJECTS", 2)
    many_values(4)

    assert "Of the 2 with most open letters." in page.get("/groups/", {"by": "subject"}).content.decode()


def test_a_page_behind_the_last_one_leads_to_the_first(page):
    many_values(1)
    last = "20000101T000000.000000_00000000000000000000000000000000"

    content = page.get("/groups/", {"by": "build", "after": last}).content.decode()
    assert "Nothing is behind that." in content
    assert 'href="/groups/?by=build"' in content


@pytest.mark.parametrize(
    "parameters",
    [
        {"by": "shape"},
        {"by": "type", "state": "new"},
        {"by": "type", "owner": "vera"},
        {"by": "type", "sort": "rate"},
        {"by": "reason", "sort": "first_seen"},
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_makes_no_sense_of_such_letters_is_400_and_said(page, parameters, headers):
    response = page.get("/groups/", parameters, headers=headers)

    assert response.status_code == 400
    assert "That filter is not understood." in response.content.decode()


@pytest.mark.parametrize("by", GROUPINGS)
def test_nothing_dead_says_so(page, by):
    assert "Nothing has died." in page.get("/groups/", {"by": by}).content.decode()


@pytest.mark.parametrize("by", GROUPINGS)
def test_the_queries_are_the_same_however_many_values(page, by):
    numbers = []
    for count in (1, 12):
        for n in range(count):
            a_letter(message_type=f"t{n}", destination=f"d{n}", generation=f"g{n}", subjects=[("order", str(n))])
        counting.fold()
        with CaptureQueriesContext(connection) as queries:
            page.get("/groups/", {"by": by})
        numbers.append(len(queries))
    assert numbers[0] == numbers[1] <= 12


@pytest.mark.parametrize("parameters", [{}, {"by": "type"}])
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_list_that_takes_too_long_says_so_and_the_rest_of_the_page_stays(page, monkeypatch, parameters, headers):
    def slow(*_arguments, **_options):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")

    monkeypatch.setattr(regions, "conf", lambda: type("Quick", (), {"region_seconds": 0.05}))
    monkeypatch.setattr("deadletters.queries.grouplist.page", slow)
    monkeypatch.setattr("deadletters.queries.tallies.tallies", slow)

    response = page.get("/groups/", {"q": "x & y", **parameters}, headers=headers)
    content = response.content.decode()
    assert response.status_code == 200
    assert "Took too long." in content
    assert "q=x+%26+y" in content
    assert ("<h1>Groups</h1>" in content) == (not headers)
