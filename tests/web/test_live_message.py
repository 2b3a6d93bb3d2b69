"""The page of a live message: what it is and waits for, what became of it, and what may be done with it."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.urls import reverse

from deadletters.models import OperatorAction
from deadletters.templatetags.live import when
from queues import Delay, handles, send
from queues.models import InboxMessage, ServiceInstance
from queues.testing import drain
from queues.words.sources import STOPPED_UNTIL
from tests.db.rows import OWN, store_event, write_row
from tests.factories import a_letter
from tests.web.conftest import HTMX
from tests.web.waiting import WORKER, a_message, address, at, lease

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken")]


def test_a_page_tells_attempts_caps_worker_and_lease(page, handlers):
    handles("t.T", max_attempts=4)(lambda message: None)
    ServiceInstance.objects.create(
        instance_id=WORKER, service_name="s", host_name="host-a", process_id=1, metadata={"generation": "build-9"}
    )
    message_id = a_message(message_type="t.T", attempts=2, delays=0, started_at=at(minutes=-2), **lease())

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
    assert "as its sender asked" in page.get(address(a_message(scheduled_for=at(hours=1), attempts=0))).content.decode()


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
    message_id = a_message(**lease())

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
