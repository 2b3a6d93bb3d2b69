"""The lists of live messages and the page of one: what they show, find and cost."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters.models import OperatorAction
from deadletters.queries import live
from deadletters.templatetags.live import when
from deadletters.words.filters import InboxFilter
from queues import Delay, handles, send, wakeups
from queues.models import Destination, InboxMessage, ServiceInstance, SourcePause, Stream
from queues.testing import drain
from queues.words.sources import STOPPED_UNTIL
from tests.db.conftest import handlers
from tests.db.rows import OWN, store_event, write_row
from tests.factories import a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db
__all__ = ["handlers"]

WORKER = UUID(int=70)


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    """Note the sources whose drainers would be woken."""
    sources = []
    monkeypatch.setattr(wakeups, "wake", sources.append)
    return sources


def ago(**span):
    return timezone.now() - timedelta(**span)


def address(message_id, name="live_message", source="inbox"):
    return reverse(f"deadletters:{name}", args=[source, message_id])


def a_message(**columns):
    return write_row("wh_inbox", **{"stream_id": None, **columns})


def lease_columns(**named):
    return {"lease_token": uuid4(), "lease_expiry": timezone.now() + timedelta(minutes=1), "instance_id": WORKER}


def of_each_state():
    """Write a message in each state; return id by state."""
    ServiceInstance.objects.create(instance_id=WORKER, service_name="shop", host_name="host-a", process_id=4711)
    letter = a_letter(stream_id=UUID(int=2))
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=1), due_at=ago(minutes=1), **lease_columns())
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=2), due_at=STOPPED_UNTIL, held_by=letter.pk)
    SourcePause.objects.create(source="wh_inbox", kind="type", value="paused.Type", paused_by="lea")
    return {
        "in_flight": a_message(scheduled_for=ago(minutes=9), **lease_columns()),
        "in_flight_of_a_stream": a_message(stream_id=UUID(int=1), scheduled_for=ago(minutes=8)),
        "behind": a_message(stream_id=UUID(int=1), scheduled_for=ago(minutes=7)),
        "held": a_message(stream_id=UUID(int=2), scheduled_for=ago(minutes=6)),
        "returned": a_message(stream_id=UUID(int=2), scheduled_for=ago(minutes=5), dead_letter_id=letter.pk),
        "of_another": a_message(stream_id=UUID(int=2), scheduled_for=ago(seconds=299), dead_letter_id=uuid4()),
        "paused": a_message(message_type="paused.Type", scheduled_for=ago(minutes=4)),
        "lapsed": a_message(scheduled_for=ago(minutes=3), **{**lease_columns(), "lease_expiry": ago(seconds=1)}),
        "held_and_delayed": a_message(stream_id=UUID(int=2), scheduled_for=ago(minutes=-59)),
        "delayed": a_message(scheduled_for=ago(hours=-1)),
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
    assert [row.id for row in found.rows] == [ids[name] for name in STATE_OF[state]]
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
    same = ago(hours=1)
    ids = [a_message(scheduled_for=same if n % 2 else same + timedelta(microseconds=n * order)) for n in range(60)]
    expected = list(InboxMessage.objects.order_by("scheduled_for", "position").values_list("pk", flat=True))

    seen, url = [], "/queues/inbox/?size=25"
    while url:
        answer = page.get(url)
        seen += [row.id for row in answer.context["page"].rows]
        following = answer.context["page"].next
        url = f"/queues/inbox/?size=25&after={following}" if following else None
    assert seen == expected
    assert sorted(seen) == sorted(ids)


def test_the_messages_of_a_stream_stand_in_its_order_whatever_is_due_when(page):
    ids = [a_message(stream_id=UUID(int=3), scheduled_for=ago(minutes=-n)) for n in (5, 1, 3)]
    a_message(stream_id=UUID(int=4))

    first = page.get(f"/queues/inbox/?stream={UUID(int=3)}").context["page"]
    assert [row.id for row in first.rows] == ids
    assert [row.is_behind for row in first.rows] == [False, True, True]


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
    assert [row.id for row in answer.context["page"].rows] == [wanted]
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
        cursor.execute(FILL, [ago(seconds=3000)])
        cursor.execute("ANALYZE wh_inbox")
    rows = live._indexed(live.annotated("wh_inbox", timezone.now()), InboxFilter(state=state), timezone.now())

    chosen = rows.order_by(*live.ORDER)[:51].explain()
    assert "wh_inbox_due" in chosen
    assert "Seq Scan on wh_inbox" not in chosen


def test_what_no_index_finds_is_looked_for_among_the_first_and_that_is_said(page, monkeypatch):
    monkeypatch.setattr(live, "SEARCHED", 5)
    for n in range(7):
        a_message(message_type=f"type.{n}", scheduled_for=ago(minutes=60 - n))

    found = page.get("/queues/inbox/?type=type.6")
    assert found.context["page"].rows == []
    assert "due first only" in found.content.decode()
    assert len(page.get("/queues/inbox/?type=type.4").context["page"].rows) == 1


def test_an_outbox_message_says_that_its_destination_is_down(page):
    later = ago(hours=-1)
    Destination.objects.create(name="bank", state="open", failures=3, opened_at=later, retry_at=later)
    Destination.objects.create(name="mail")
    down, up = (write_row("wh_outbox", stream_id=None, destination=name) for name in ("bank", "mail"))

    rows = {row.id: row.is_down for row in page.get("/queues/outbox/").context["page"].rows}
    assert rows == {down: True, up: False}
    assert "its destination, which is down" in page.get("/queues/outbox/").content.decode()
    assert "its destination is down" in page.get(address(down, source="outbox")).content.decode()


# --- one message


def test_a_page_tells_attempts_caps_worker_and_lease(page, handlers):
    handles("t.T", max_attempts=4)(lambda message: None)
    ServiceInstance.objects.create(
        instance_id=WORKER, service_name="s", host_name="host-a", process_id=1, metadata={"generation": "build-9"}
    )
    message_id = a_message(message_type="t.T", attempts=2, delays=0, started_at=ago(minutes=2), **lease_columns())

    answer = page.get(address(message_id))
    one = answer.context["live"]
    assert (one.attempt, one.max_attempts, one.state) == (2, 4, "in_flight")
    for said in ("2 of 4", "host-a", "build-9", "lease until"):
        assert said in answer.content.decode()


@pytest.mark.parametrize(
    ("columns", "attempt", "cap"),
    [
        ({"attempts": 0}, 1, 10),
        ({"attempts": 5, "delays": 2, "releases": 1}, 3, 10),
        ({"attempts": 1, "max_attempts": -1}, 2, None),
        ({"attempts": 1, "max_attempts": 3}, 2, 3),
    ],
)
def test_an_attempt_counts_what_the_budget_counts(page, columns, attempt, cap):
    one = page.get(address(a_message(**columns))).context["live"]

    assert (one.attempt, one.max_attempts) == (attempt, cap)


@pytest.mark.parametrize(("outcome", "said"), [("delay", "as its handler asked"), ("fail", "after a failure")])
def test_a_page_says_why_a_message_waits(page, handlers, outcome, said):
    @handles("t.T")
    def wait(message):
        raise Delay(3600) if outcome == "delay" else ValueError("not yet")

    message_id = send("t.T", 1).message_id
    drain()

    for url in ("/queues/inbox/", address(message_id)):
        assert said in page.get(url).content.decode()
    assert (
        "as its sender asked" in page.get(address(a_message(scheduled_for=ago(hours=-1), attempts=0))).content.decode()
    )


def test_a_perspectives_event_shows_the_body_in_the_event_store(page):
    event_work_id = write_row("wh_perspective_events")
    url = address(event_work_id, source="perspectives")
    assert "The event is not in the event store." in page.get(url).content.decode()

    store_event(OWN["wh_perspective_events"]["event_id"])
    content = page.get(url).content.decode()
    assert "shop.OrderPlaced" in content
    assert "tenant" in content


@pytest.mark.parametrize("body", ['"' + "x" * 300_000 + '"', "[" * 3000 + "]" * 3000, "null", "9" * 5000])
def test_a_page_shows_any_payload(page, body):
    content = page.get(address(a_message(event_data=body))).content.decode()

    assert "Payload" in content


def test_a_message_that_is_gone_says_what_became_of_it(page, handlers):
    handles("t.T")(lambda message: None)
    unknown = page.get(address(uuid4()))
    assert unknown.status_code == 404
    assert "It is not in the queue any more" in unknown.content.decode()

    letter = a_letter()
    died = page.get(address(letter.source_id))
    assert died.status_code == 404
    assert reverse("deadletters:letter", args=[letter.pk]) in died.content.decode()


def test_a_page_renews_only_what_changed_and_stops_when_the_message_is_gone(page, handlers):
    handles("t.T")(lambda message: None)
    message_id = send("t.T", 1).message_id
    seen = page.get(address(message_id)).context["seen"]
    state = address(message_id, "message_state")

    assert page.get(f"{state}?seen={seen}", headers=HTMX).status_code == 204
    InboxMessage.objects.update(attempts=3)
    changed = page.get(f"{state}?seen={seen}", headers=HTMX)
    assert changed.status_code == 200
    assert 'id="facts" hx-swap-oob="true"' in changed.content.decode()
    assert page.get(state).status_code == 302
    drain()
    gone = page.get(f"{state}?seen={seen}", headers=HTMX)
    assert gone.status_code == 286
    assert "It is not in the queue any more" in gone.content.decode()


# --- actions


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_stop_and_run_now_answer_with_the_message_as_it_is(page, woken, headers):
    message_id = a_message()

    stopped = page.post(address(message_id, "stop"), {"reason": "wait for\r\nthe bank"}, headers=headers)
    assert stopped.status_code == (200 if headers else 302)
    assert InboxMessage.objects.get().scheduled_for == STOPPED_UNTIL
    content = page.get(address(message_id)).content.decode()
    assert "Stopped it" in content
    assert "wait for\nthe bank" in content
    again = page.post(address(message_id, "stop"), headers=headers)
    assert again.status_code == 409
    assert "It was stopped already." in again.content.decode()

    ran = page.post(address(message_id, "run_now"), headers=headers)
    assert ran.status_code == (200 if headers else 302)
    assert InboxMessage.objects.get().scheduled_for <= datetime.now(UTC)
    assert woken[-1] == "wh_inbox"


def test_a_stopped_message_is_not_to_be_stopped_and_the_reason_is_used_up(page):
    message_id, reason = a_message(), {"reason": "the bank is down"}
    stop = f'formaction="{address(message_id, "stop")}"'
    assert stop in page.get(address(message_id)).content.decode()

    stopped = page.post(address(message_id, "stop"), reason, headers=HTMX).content.decode()
    assert 'id="act" class="card" aria-labelledby="act-title" hx-swap-oob="true"' in stopped
    assert 'name="reason" value=""' in stopped
    assert stop not in stopped
    assert stop not in page.get(address(message_id)).content.decode()
    refused = page.post(address(message_id, "dead_letter"), {"reason": " "}, headers=HTMX).content.decode()
    assert stop not in refused
    assert stop in page.post(address(message_id, "run_now"), headers=HTMX).content.decode()


def test_what_renews_itself_takes_stop_away_and_leaves_what_is_typed(page):
    message_id = a_message(scheduled_for=STOPPED_UNTIL)

    renewed = page.get(f"{address(message_id, 'message_state')}?seen=", headers=HTMX).content.decode()
    assert '<span id="act-stop" hx-swap-oob="true"></span>' in renewed
    assert 'name="reason"' not in renewed


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ({"hours": 1, "minutes": 59, "seconds": 30}, "in 1 h 59 min"),
        ({"hours": 2, "seconds": 30}, "in 2 h"),
        ({"days": 1, "hours": 23, "seconds": 30}, "in 1 d 23 h"),
        ({"minutes": 1, "seconds": 59}, "in 1 min 59 s"),
        ({"seconds": 59}, "in 59 s"),
        ({"days": 4000}, "in 4,000 d"),
        ({"milliseconds": 300}, "now"),
    ],
)
def test_a_time_to_come_is_told_in_two_units(span, said):
    now = datetime(2030, 1, 1, tzinfo=UTC)

    assert f">{said}</time>" in when(now + timedelta(**span), now)


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_runs_is_not_run_now(page, headers):
    message_id = a_message(**lease_columns())

    answer = page.post(address(message_id, "run_now"), {"reason": "kept as typed"}, headers=headers)
    assert answer.status_code == 409
    assert headers or 'value="kept as typed"' in answer.content.decode()
    assert "It runs at this moment." in answer.content.decode()
    assert "In flight" in answer.content.decode()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_dead_letter_needs_a_reason_and_is_shown(page, headers):
    message_id = a_message()

    refused = page.post(address(message_id, "dead_letter"), {"reason": " "}, headers=headers)
    assert refused.status_code == 422
    assert "Reason must say why" in refused.content.decode()
    assert InboxMessage.objects.exists()

    moved = page.post(address(message_id, "dead_letter"), {"reason": "the wrong tenant"}, headers=headers)
    letter = OperatorAction.objects.get().dead_letter_id
    target = moved.headers["HX-Redirect" if headers else "Location"]
    assert target == reverse("deadletters:letter", args=[letter])
    shown = page.get(target).content.decode()
    assert "the wrong tenant" in shown
    assert "A person moved it here." in shown
    assert "Dead-lettered it" in shown


@pytest.mark.parametrize("name", ["run_now", "stop", "dead_letter"])
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_an_action_on_what_is_gone_is_409(page, name, headers):
    answer = page.post(address(uuid4(), name), {"reason": "x"}, headers=headers)

    assert answer.status_code == 409
    assert "It is not in the queue any more" in answer.content.decode()
    assert not OperatorAction.objects.exists()


def test_those_who_may_only_look_see_no_form(signed_in, viewer):
    content = signed_in(viewer).get(address(a_message())).content.decode()

    assert "You lack the right to run, stop or dead-letter it." in content
    assert "<form" not in content.partition("<main")[2].partition("</main>")[0]
