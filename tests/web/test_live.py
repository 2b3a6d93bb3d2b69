"""The lists of live messages: what they show, find and cost."""

import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deadletters.queries import live
from deadletters.words.filters import InboxFilter
from queues.models import Destination, InboxMessage, ServiceInstance, SourcePause, Stream
from queues.words.sources import STOPPED_UNTIL
from tests.db.rows import write_row
from tests.factories import a_letter
from tests.web.conftest import HTMX
from tests.web.waiting import WORKER, a_message, address, at, lease

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken")]


def of_each_state():
    """Write a message in each state; return id by state."""
    ServiceInstance.objects.create(instance_id=WORKER, service_name="shop", host_name="host-a", process_id=4711)
    letter = a_letter(stream_id=UUID(int=2))
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=1), due_at=at(minutes=-1), **lease())
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=2), due_at=STOPPED_UNTIL, held_by=letter.pk)
    SourcePause.objects.create(source="wh_inbox", kind="type", value="paused.Type", paused_by="lea")
    return {
        "in_flight": a_message(scheduled_for=at(minutes=-9), **lease()),
        "in_flight_of_a_stream": a_message(stream_id=UUID(int=1), scheduled_for=at(minutes=-8)),
        "behind": a_message(stream_id=UUID(int=1), scheduled_for=at(minutes=-7)),
        "held": a_message(stream_id=UUID(int=2), scheduled_for=at(minutes=-6)),
        "returned": a_message(stream_id=UUID(int=2), scheduled_for=at(minutes=-5), dead_letter_id=letter.pk),
        "of_another": a_message(stream_id=UUID(int=2), scheduled_for=at(seconds=-299), dead_letter_id=uuid4()),
        "paused": a_message(message_type="paused.Type", scheduled_for=at(minutes=-4)),
        "lapsed": a_message(scheduled_for=at(minutes=-3), **{**lease(), "lease_expiry": at(seconds=-1)}),
        "held_and_delayed": a_message(stream_id=UUID(int=2), scheduled_for=at(minutes=59)),
        "delayed": a_message(scheduled_for=at(hours=1)),
        "stopped": a_message(scheduled_for=STOPPED_UNTIL),
    }


STATE_OF = {
    "in_flight": ["in_flight", "in_flight_of_a_stream"],
    "waiting": ["behind", "returned", "lapsed"],
    "held": ["held", "of_another", "held_and_delayed"],
    "paused": ["paused"],
    "delayed": ["delayed"],
    "stopped": ["stopped"],
}


@pytest.mark.parametrize("state", STATE_OF)
def test_a_state_finds_its_messages_in_the_order_in_which_they_are_due(db, state):
    ids = of_each_state()

    found = live.page("wh_inbox", InboxFilter(state=state))
    assert [row.pk for row in found.rows] == [ids[name] for name in STATE_OF[state]]
    assert {row.state for row in found.rows} == {state}
    assert found.total == len(found.rows)


def test_the_list_says_what_each_message_waits_for(page):
    of_each_state()

    content = page.get("/queues/inbox/").content.decode()
    for said in ("host-a", "a dead letter", "a resume", "its time", "somebody to run it", "those before it"):
        assert said in content
    assert "All messages" in content
    assert content.count("data-row") == 11


@pytest.mark.parametrize("order", [1, -1])
def test_pages_follow_each_other_without_a_gap_or_a_double(page, order):
    same = at(hours=-1)
    ids = [a_message(scheduled_for=same if n % 2 else same + timedelta(microseconds=n * order)) for n in range(60)]
    expected = list(InboxMessage.objects.order_by("scheduled_for", "position").values_list("pk", flat=True))

    seen, url = [], "/queues/inbox/?size=25"
    while url:
        answer = page.get(url)
        seen += [row.id for row in answer.context["rows"]]
        following = answer.context["page"].next
        url = f"/queues/inbox/?size=25&after={following}" if following else None
    assert seen == expected
    assert sorted(seen) == sorted(ids)


def test_the_messages_of_a_stream_stand_in_its_order_whatever_is_due_when(page):
    ids = [a_message(stream_id=UUID(int=3), scheduled_for=at(minutes=n)) for n in (5, 1, 3)]
    a_message(stream_id=UUID(int=4))

    first = page.get(f"/queues/inbox/?stream={UUID(int=3)}").context["rows"]
    assert [row.id for row in first] == ids
    assert [row.is_behind for row in first] == [False, True, True]


@pytest.mark.parametrize(
    ("source", "query", "column", "value"),
    [
        ("inbox", "type=shop.Wanted", "message_type", "shop.Wanted"),
        ("outbox", "destination=wanted", "destination", "wanted"),
        ("outbox", "type=shop.Wanted", "message_type", "shop.Wanted"),
        ("perspectives", "perspective=wanted", "perspective_name", "wanted"),
    ],
)
def test_each_source_is_filtered_by_what_it_has(page, source, query, column, value):
    table = {"inbox": "wh_inbox", "outbox": "wh_outbox", "perspectives": "wh_perspective_events"}[source]
    write_row(table)
    wanted = write_row(table, **{column: value, "stream_id": uuid4()})

    answer = page.get(f"/queues/{source}/?{query}", headers=HTMX)
    assert [row.id for row in answer.context["rows"]] == [wanted]
    assert value in answer.content.decode()


@pytest.mark.parametrize(
    "query",
    [
        "x=1",
        "state=dead",
        "q=42",
        "stream=x",
        "destination=bank",
        "after=x",
        "after=20260101T000000.000000_x",
        "size=7",
    ],
)
def test_a_filter_that_is_not_understood_is_400_and_says_so(page, query):
    for headers in ({}, HTMX):
        answer = page.get(f"/queues/inbox/?{query}", headers=headers)
        assert answer.status_code == 400
        assert "That filter is not understood." in answer.content.decode()


def test_a_message_that_is_not_there_leads_to_the_dead_letters(page):
    content = page.get(f"/queues/inbox/?q={uuid4()}").content.decode()

    assert "Nothing that is alive matches." in content
    assert "Look among the dead letters" in content


def test_a_list_that_renews_itself_makes_no_step_in_the_history(page):
    a_message()

    assert "HX-Push-Url" in page.get("/queues/inbox/?type=x", headers=HTMX).headers
    assert "HX-Push-Url" not in page.get("/queues/inbox/?type=x", headers={**HTMX, "HX-Trigger": "results"}).headers


def test_secrets_are_masked_and_markup_is_text(page):
    message_id = a_message(
        message_type="<b>x</b>",
        error="ValueError: password=hunter2 <script>",
        event_data=json.dumps({"password": "hunter2", "n": 1}),
        metadata=json.dumps({"headers": {"authorization": "Bearer hunter2"}}),
        failure_detail=json.dumps({"detail": {"token": "hunter2"}}),
    )

    for url in ("/queues/inbox/", address(message_id)):
        content = page.get(url).content.decode()
        assert "hunter2" not in content
        assert "<b>x</b>" not in content
        assert "<script>" not in content.replace("<script src", "")
        assert "&lt;b&gt;x&lt;/b&gt;" in content


def test_lists_never_read_bodies_and_cost_the_same_however_many_there_are(page):
    def cost(url):
        with CaptureQueriesContext(connection) as queries:
            assert page.get(url).status_code == 200
        return [query["sql"] for query in queries]

    of_each_state()
    few = {url: cost(url) for url in ("/queues/inbox/", "/queues/", "/queues/streams/", "/queues/workers/")}
    for _ in range(4):
        ServiceInstance.objects.all().delete()
        of_each_state_again()
    for url, queries in few.items():
        assert len(cost(url)) == len(queries), url
    listed = " ".join(few["/queues/inbox/"])
    for heavy in ("event_data", "envelope_raw", '"wh_inbox"."metadata"', "failure_detail"):
        assert heavy not in listed


def of_each_state_again():
    Stream.objects.all().delete()
    SourcePause.objects.all().delete()
    of_each_state()


FILL = """
INSERT INTO wh_inbox (message_id, message_type, event_data, stream_id, scheduled_for)
SELECT gen_random_uuid(), 'type.' || n %% 50, '{}', CASE WHEN n %% 3 = 0 THEN md5((n %% 90)::text)::uuid END,
       %s + n * interval '1 s'
  FROM generate_series(1, 6000) n
"""


@pytest.mark.parametrize("state", ["", "waiting", "delayed", "stopped"])
def test_a_page_is_read_by_its_index_and_not_sorted_whole(db, state):
    with connection.cursor() as cursor:
        cursor.execute(FILL, [at(seconds=-3000)])
        cursor.execute("ANALYZE wh_inbox")
    rows = live._indexed(live.annotated("wh_inbox", timezone.now()), InboxFilter(state=state), timezone.now())

    chosen = rows.order_by(*live.ORDER)[:51].explain()
    assert "wh_inbox_due" in chosen
    assert "Seq Scan on wh_inbox" not in chosen


def test_what_no_index_finds_is_looked_for_among_the_first_and_that_is_said(page, monkeypatch):
    monkeypatch.setattr(live, "SEARCHED", 5)
    for n in range(7):
        a_message(message_type=f"type.{n}", scheduled_for=at(minutes=-(60 - n)))

    found = page.get("/queues/inbox/?type=type.6")
    assert found.context["rows"] == []
    assert "due first only" in found.content.decode()
    assert len(page.get("/queues/inbox/?type=type.4").context["rows"]) == 1


def test_an_outbox_message_says_that_its_destination_is_down(page):
    later = at(hours=1)
    Destination.objects.create(name="bank", state="open", failures=3, opened_at=later, retry_at=later)
    Destination.objects.create(name="mail")
    down, up = (write_row("wh_outbox", stream_id=None, destination=name) for name in ("bank", "mail"))

    rows = {row.id: row.is_down for row in page.get("/queues/outbox/").context["rows"]}
    assert rows == {down: True, up: False}
    assert "its destination, which is down" in page.get("/queues/outbox/").content.decode()
    assert "its destination is down" in page.get(address(down, source="outbox")).content.decode()
