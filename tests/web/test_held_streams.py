"""Held streams on the pages: what holds each, what waits behind it, and how it is let go."""

from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.urls import reverse

from deadletters.models import OperatorAction
from deadletters.queries import queues
from deadletters.words.filters import StreamFilter
from queues.models import Stream
from tests.db.rows import write_row
from tests.web.conftest import HTMX
from tests.web.waiting import a_held_stream, at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken")]


def test_a_held_stream_is_listed_with_its_letter_and_what_waits_behind_it(page):
    letter = a_held_stream(error="CardDeclined: no funds")
    for _ in range(3):
        write_row("wh_inbox", stream_id=UUID(int=1))
    write_row("wh_outbox", stream_id=UUID(int=1))

    answer = page.get("/queues/streams/")
    (row,) = answer.context["rows"]
    assert (row.stream.held_by, row.behind, row.is_capped) == (letter.pk, 3, False)
    assert "CardDeclined" in answer.content.decode()
    assert reverse("deadletters:letter", args=[letter.pk]) in answer.content.decode()


def test_what_waits_behind_a_letter_is_counted_up_to_a_cap(page, monkeypatch):
    monkeypatch.setattr(queues, "MAX_BEHIND", 2)
    a_held_stream()
    for _ in range(4):
        write_row("wh_inbox", stream_id=UUID(int=1))

    (row,) = page.get("/queues/streams/").context["rows"]
    assert (row.behind, row.is_capped) == (3, True)


@pytest.mark.parametrize("queue", ["their_queue", "wh_perspective_events", "wh_inbox:x", ""])
def test_a_stream_of_an_unknown_queue_behind_a_letter_that_is_gone_is_shown_and_let_go(page, woken, queue):
    Stream.objects.create(queue=queue, stream_id=UUID(int=1), due_at=at(), held_by=UUID(int=8))

    content = page.get("/queues/streams/").content.decode()
    assert f'<td class="state-cell">{queue}</td>' in content
    assert "a letter that is gone" in content
    assert "?stream=" not in content
    typed = {"queue": queue, "stream": str(UUID(int=1)), "letter": str(UUID(int=8))}
    assert page.post("/queues/streams/let-go", typed, headers=HTMX).status_code == 200
    assert Stream.objects.get().held_by is None
    assert woken == []


def test_pages_of_held_streams_follow_each_other(page):
    for number in range(30):
        a_held_stream(number, queue="wh_inbox" if number % 2 else "wh_perspective_events:totals")

    first = page.get("/queues/streams/?size=25").context["page"]
    second = page.get(f"/queues/streams/?size=25&after={first.next}").context["page"]
    assert len({(row.queue.name, row.stream_id) for row in [*first.rows, *second.rows]}) == 30
    assert second.next is None
    assert page.get("/queues/streams/?after=nonsense").status_code == 400


def test_held_streams_are_found_by_their_index(db):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_streams (queue, stream_id, due_at, held_by)"
            " SELECT 'wh_inbox', gen_random_uuid(), now(), CASE WHEN n %% 500 = 0 THEN gen_random_uuid() END"
            "   FROM generate_series(1, 6000) n",
            [],
        )
        cursor.execute("ANALYZE wh_streams")
    held = Stream.objects.filter(held_by__isnull=False).order_by("queue", "stream_id")[:51]

    assert "wh_streams_held" in held.explain()
    assert len(queues.held_streams(StreamFilter()).rows) == 12


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_stream_is_let_go_past_the_letter_that_was_seen_and_no_other(page, headers):
    letter = a_held_stream()
    typed = {"queue": "wh_inbox", "stream": str(UUID(int=1)), "letter": str(letter.pk)}

    stale = page.post("/queues/streams/let-go", {**typed, "letter": str(uuid4())}, headers=headers)
    assert stale.status_code == 409
    assert "does not hold it any more" in stale.content.decode()
    done = page.post("/queues/streams/let-go", typed, headers=headers)
    assert done.status_code == (200 if headers else 302)
    assert Stream.objects.get().held_by is None
    assert page.post("/queues/streams/let-go", typed, headers=headers).status_code == 409
    assert OperatorAction.objects.get().action == "let_stream_go"
    assert "Let its stream go on" in page.get(reverse("deadletters:letter", args=[letter.pk])).content.decode()


@pytest.mark.parametrize("wrong", [{}, {"stream": "x", "letter": str(UUID(int=1))}, {"stream": str(UUID(int=1))}])
def test_a_stream_that_is_no_id_is_400(page, wrong):
    assert page.post("/queues/streams/let-go", wrong).status_code == 400
