"""Subjects: what most open letters are about, and everything about one, whatever its name holds."""

import gzip
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting, triage
from deadletters.queries import about as queries
from deadletters.queries import regions
from queues.models import Stream
from tests.db.rows import write_row
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

STREAM = "00000000-0000-4000-8000-000000000001"
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
    ("order", "\u202eאבג 🦆👩‍👩‍👧"),
    ("order", "a\\u0000b"),
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
    assert (subject["type"], subject["id"]) == name
    assert [row.letter.pk for row in response.context["found"].value.rows] == [letter.pk]
    assert sum(response.context["counted"].value.values()) == 1
    assert "<img src=x" not in response.content.decode()


def test_its_counts_are_exact_before_and_after_the_fold(page):
    for status in (0, 0, 2, 3):
        a_letter(subjects=[("order", "1")], status=status)
    counting.fold()
    a_letter(subjects=[("order", "1")], status=4)

    response = page.get("/subject/", {"type": "order", "id": "1"})
    assert response.context["counted"].value == {0: 2, 2: 1, 3: 1, 4: 1}
    assert '/letters/?status=held&amp;subject=order%3A1"' in response.content.decode()


def test_its_letters_are_paged_whole(page):
    made = [a_letter(subjects=[("order", "1")], dead_lettered_at=NOON + timedelta(minutes=n // 2)) for n in range(60)]

    first = page.get("/subject/", {"type": "order", "id": "1"}).context["found"].value
    rest = page.get("/subject/", {"type": "order", "id": "1", "after": str(first.next)}).context["found"].value
    shown = [row.letter.pk for row in [*first.rows, *rest.rows]]
    assert len(first.rows) == 50
    assert len(shown) == 60
    assert set(shown) == {letter.pk for letter in made}
    assert rest.next is None


def about(page, **parameters):
    return page.get("/subject/", {"type": "order", "id": "1", **parameters})


@pytest.mark.parametrize("walked", [1, 1_000])
def test_of_a_subject_of_many_letters_the_pages_are_the_same_whatever_way_they_are_read(page, monkeypatch, walked):
    made = [a_letter(subjects=[("order", "1")], dead_lettered_at=NOON + timedelta(minutes=n // 2)) for n in range(60)]
    a_letter(subjects=[("order", "2")], dead_lettered_at=NOON + timedelta(hours=9))

    def shown():
        first = about(page).context["found"].value
        rest = about(page, after=str(first.next)).context["found"].value
        return [row.letter.pk for row in [*first.rows, *rest.rows]]

    by_key = shown()
    monkeypatch.setattr(queries, "MANY", 1)
    monkeypatch.setattr(queries, "WALKED", walked)
    assert shown() == by_key
    assert set(by_key) == {letter.pk for letter in made}


def test_it_shows_what_waits_in_the_streams_of_its_letters_and_what_holds_them(page):
    letter = a_letter(subjects=[("order", "1")], stream_id=STREAM)
    a_letter(subjects=[("order", "1")], stream_id=STREAM)
    a_letter(subjects=[("order", "1")], stream_id=STREAM, source_table="wh_outbox")
    a_letter(subjects=[("order", "2")], stream_id=uuid4())
    for _ in range(3):
        write_row("wh_inbox", stream_id=STREAM)
    Stream.objects.create(queue="wh_inbox", stream_id=STREAM, due_at=NOON, held_by=letter.pk)

    response = about(page)
    found = [(s.queue.source, s.letters, s.behind, s.held_by) for s in response.context["streams"].value]
    assert found == [("wh_inbox", 2, 3, letter.pk), ("wh_outbox", 1, 0, None)]
    content = response.content.decode()
    assert f"/letters/?stream={STREAM}" in content
    assert f"/queues/inbox/?stream={STREAM}" in content
    assert reverse("deadletters:letter", args=[letter.pk]) in content


def test_its_timeline_holds_deaths_recoveries_notes_and_decisions_newest_first(page, operator):
    letter = a_letter(subjects=[("order", "1")], deaths=2, error="password=hunter2", message_type="shop.Pay")
    a_letter(subjects=[("order", "1")], status=3, message_type="shop.Ship")
    a_letter(subjects=[("order", "2")], deaths=9)
    triage.add_note(text="ask <Marta>", user=operator, dead_letter_id=letter.pk)
    triage.change_letter(dead_letter_id=letter.pk, user=operator, changes={"owner": "vera"}, reason="she knows")

    response = about(page)
    events = response.context["told"].value.events
    assert Counter(event.kind for event in events) == {"death": 3, "sent": 1, "recovered": 1, "note": 1, "action": 1}
    assert [event.at for event in events] == sorted((event.at for event in events), reverse=True)
    content = response.content.decode()
    for words in ("ask &lt;Marta&gt;", "she knows", "shop.Pay: Changed owner: – → vera", "shop.Pay (death 2)"):
        assert words in content
    assert "hunter2" not in content


def test_older_letters_bring_their_own_timeline(page):
    made = [a_letter(subjects=[("order", "1")], dead_lettered_at=NOON + timedelta(minutes=n)) for n in range(60)]

    first = about(page).context
    rest = about(page, after=str(first["found"].value.next)).context
    told = [event.letter for event in (*first["told"].value.events, *rest["told"].value.events)]
    assert told == [letter.pk for letter in reversed(made)]


def test_recovering_all_of_it_is_a_run_over_exactly_it(page):
    for status in (0, 0, 2, 3):
        a_letter(subjects=[("order", "a:b/ ?&é%")], status=status)
    a_letter(subjects=[("order", "a:b/ ?&é%2")])
    counting.fold()

    response = page.get("/subject/", {"type": "order", "id": "a:b/ ?&é%"})
    assert "Recover all about it: 3…" in response.content.decode()
    sent = {"scope": "matching", "filter": response.context["filters"].query()}
    run = page.get(page.post(reverse("deadletters:prepare_run"), sent).headers["Location"]).context["run"]
    assert run.frozen_count == 3


def test_holding_all_of_it_asks_about_exactly_its_open_letters_first(page):
    for status in (0, 0, 3):
        a_letter(subjects=[("order", "1")], status=status)
    a_letter(subjects=[("order", "2")])
    counting.fold()

    response = about(page)
    assert "Hold all about it: 2 open…" in response.content.decode()
    given = response.context["filters"].query(status="open")
    asked = page.post(
        reverse("deadletters:ask_many"), {"scope": "matching", "filter": given, "verb": "hold"}, follow=True
    )
    assert (asked.status_code, asked.context["n"]) == (200, 2)


def test_one_subject_costs_at_most_twelve_queries_and_60_kilobytes(page, operator):
    for _ in range(60):
        letter = a_letter(subjects=[("order", "1"), *((f"k{n}", "x" * 300) for n in range(12))], deaths=4,
                          stream_id=uuid4(), message_type=f"shop.{uuid4()}" * 4, error=f"{uuid4()} " * 40)  # fmt: skip
        triage.add_note(text=f"{uuid4()} " * 40, user=operator, dead_letter_id=letter.pk)

    with CaptureQueriesContext(connection) as queries:
        response = about(page)
    assert response.context["told"].value.is_cut
    assert len(response.context["streams"].value) == 20
    assert len(queries) <= 12, [query["sql"][:80] for query in queries]
    assert len(gzip.compress(response.content)) < 60_000


@pytest.mark.parametrize("read", ["count", "page", "timeline", "streams"])
def test_a_region_of_it_that_takes_too_long_says_so_and_the_others_stay(page, monkeypatch, read):
    def slow(*_arguments, **_options):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")

    a_letter(subjects=[("order", "1")])
    monkeypatch.setattr(regions, "conf", lambda: type("Quick", (), {"region_seconds": 0.2}))
    monkeypatch.setattr(f"deadletters.queries.about.{read}", slow)

    content = about(page).content.decode()
    assert "Took too long." in content
    assert "<bdi>1</bdi>" in content
    assert ("Letters about it" in content) == (read != "page")


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
    assert found(q="A-2") == {("order", "A-2")}


def test_a_whole_id_comes_first_and_once_on_whatever_page(page):
    for number in range(26):
        for _ in range(2):
            a_letter(subjects=[("order", f"7{number}")])
    a_letter(subjects=[("order", "7")])
    a_letter(subjects=[("line", "7")])
    counting.fold()

    first = page.get("/subjects/", {"q": "7", "size": "25"}).context["page"]
    rest = page.get("/subjects/", {"q": "7", "size": "25", "after": str(first.next)}).context["page"]
    assert {(row.type, row.id) for row in first.rows[:2]} == {("order", "7"), ("line", "7")}
    assert [row.id for row in [*first.rows, *rest.rows]].count("7") == 2
    assert len({(row.type, row.id) for row in [*first.rows, *rest.rows]}) == 28


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
