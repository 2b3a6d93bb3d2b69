"""The queues as a whole: what waits in each source and for what, and destinations that are down."""

from uuid import UUID, uuid4

import pytest

from deadletters.queries import depths
from queues.models import Destination, InboxMessage, SourcePause, Stream
from queues.stats import stats
from queues.words.sources import STOPPED_UNTIL
from tests.db.rows import write_row
from tests.factories import a_letter
from tests.web.conftest import HTMX
from tests.web.waiting import a_worker, at, lease

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken")]


@pytest.fixture
def of_each_state(db):
    """Write messages of the inbox in each state; return id by what they are."""
    letter = a_letter(stream_id=UUID(int=2))
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=1), due_at=at(minutes=-1), **lease())
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=2), due_at=at(), held_by=letter.pk)
    SourcePause.objects.create(source="wh_inbox", kind="type", value="paused.Type", paused_by="lea")
    free, led, held = ({"stream_id": stream} for stream in (None, UUID(int=1), UUID(int=2)))
    rows = {
        "in_flight": {**free, "scheduled_for": at(minutes=-9), **lease()},
        "leads": {**led, "scheduled_for": at(minutes=-8)},
        "follows": {**led, "scheduled_for": at(minutes=-7)},
        "returned": {**held, "scheduled_for": at(minutes=-5), "dead_letter_id": letter.pk},
        "held": {**held, "scheduled_for": at(minutes=-6)},
        "held_and_of_another": {**held, "scheduled_for": at(minutes=-5), "dead_letter_id": uuid4()},
        "held_and_delayed": {**held, "scheduled_for": at(hours=1)},
        "paused": {**free, "message_type": "paused.Type", "scheduled_for": at(minutes=-4)},
        "lapsed": {**free, "scheduled_for": at(minutes=-3), **lease(), "lease_expiry": at(seconds=-1)},
        "delayed": {**free, "scheduled_for": at(hours=1)},
        "held_and_stopped": {**held, "scheduled_for": STOPPED_UNTIL},
    }
    return {name: write_row("wh_inbox", **columns) for name, columns in rows.items()}


def test_the_overview_counts_each_message_once_by_what_it_waits_for(page, of_each_state):
    inbox, outbox, _ = page.get("/queues/").context["cards"]

    assert inbox.depth.value.parts == {"waiting": 3, "in_flight": 2, "delayed": 1, "held": 3, "paused": 1, "stopped": 1}
    assert (inbox.total, inbox.depth.value.held_streams, inbox.depth.value.capped) == (11, 1, set())
    assert (outbox.total, sum(outbox.depth.value.parts.values()), outbox.depth.value.oldest_due_at) == (0, 0, None)


def test_the_tiles_add_up_and_each_leads_to_as_many_messages(page, of_each_state):
    inbox = page.get("/queues/").context["cards"][0]

    assert {
        state: page.get(f"/queues/inbox/?state={state}").context["page"].total for state in inbox.depth.value.parts
    } == dict(inbox.depth.value.parts)
    assert inbox.total == sum(inbox.depth.value.parts.values())


def test_a_message_is_counted_as_the_statistics_count_it(page, of_each_state):
    inbox, counted = dict(page.get("/queues/").context["cards"][0].depth.value.parts), stats().sources[0].present

    inbox["waiting"] += inbox.pop("paused")
    assert inbox == {state: getattr(counted, state) for state in inbox}


def test_the_oldest_is_the_first_that_really_waits_for_a_worker(page, of_each_state):
    inbox = page.get("/queues/").context["cards"][0]

    assert inbox.depth.value.oldest_due_at == InboxMessage.objects.get(pk=of_each_state["returned"]).scheduled_for
    InboxMessage.objects.filter(pk__in=[of_each_state["returned"], of_each_state["lapsed"]]).delete()
    assert "What waits stands behind something else." in page.get("/queues/").content.decode()


def test_what_waits_for_a_destination_that_is_down_waits_for_no_worker(page):
    write_row("wh_outbox", stream_id=None, destination="bank", scheduled_for=at(hours=-2))
    Destination.objects.create(name="bank", state="open", opened_at=at(), retry_at=at(minutes=5))

    outbox = page.get("/queues/").context["cards"][1]
    assert (outbox.depth.value.parts["waiting"], outbox.depth.value.oldest_due_at) == (1, None)


def test_counts_end_where_looking_does_and_say_so(page, monkeypatch):
    monkeypatch.setattr(depths, "LOOKED_AT", 2)
    for number in range(4):
        write_row("wh_inbox", stream_id=None, scheduled_for=at(hours=-number), **(lease() if number > 1 else {}))
    write_row("wh_inbox", stream_id=None, scheduled_for=STOPPED_UNTIL)

    answer = page.get("/queues/")
    inbox = answer.context["cards"][0]
    assert (inbox.total, inbox.depth.value.parts["in_flight"], inbox.depth.value.parts["stopped"]) == (5, 2, 1)
    assert inbox.depth.value.capped == {"waiting", "in_flight", "held", "paused"}
    content = answer.content.decode()
    assert ">2+</a>" in content
    assert "Of the 2 that are due first none waits for a worker." in content


def test_a_leased_stream_is_in_flight_with_its_first_message_in_each_perspective(page):
    for name in ("totals", "totals", "other"):
        write_row("wh_perspective_events", stream_id=UUID(int=1), perspective_name=name, event_id=uuid4())
    Stream.objects.create(queue="wh_perspective_events:totals", stream_id=UUID(int=1), due_at=at(), **lease())

    perspectives = page.get("/queues/").context["cards"][2]
    assert (perspectives.depth.value.parts["in_flight"], perspectives.depth.value.parts["waiting"]) == (1, 2)


def test_no_live_worker_is_the_first_thing_that_is_said(page):
    assert "No worker is alive." in page.get("/queues/").content.decode()

    a_worker(metadata={"types": ["by.Hand"]})
    content = page.get("/queues/").content.decode()
    assert "No worker is alive." not in content
    assert "No live worker handles" not in content


@pytest.mark.parametrize("paused", [{"kind": "type", "value": "by.Hand"}, {"kind": "source"}])
def test_a_paused_type_needs_no_worker(page, paused):
    a_worker()
    write_row("wh_inbox", scheduled_for=at(minutes=-1))
    write_row("wh_perspective_events", scheduled_for=at(minutes=-1))
    assert page.get("/queues/workers/").context["unhandled"].value == ["by.Hand", "totals"]

    made = SourcePause.objects.create(source="wh_inbox", paused_by="lea", **paused)
    assert page.get("/queues/workers/").context["unhandled"].value == ["totals"]
    SourcePause.objects.filter(pk=made.pk).update(until=at(minutes=-1))
    assert page.get("/queues/workers/").context["unhandled"].value == ["by.Hand", "totals"]


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_destination_that_is_down_is_shown_and_tried_now(page, woken, headers):
    Destination.objects.create(
        name="bank", state="open", failures=4, opened_at=at(), retry_at=at(minutes=5), last_error="password=hunter2"
    )
    Destination.objects.create(name="mail")
    content = page.get("/queues/destinations/").content.decode()
    assert content.index("bank") < content.index("mail")
    assert "hunter2" not in content
    assert "bank" in page.get("/queues/").content.decode()

    tried = page.post("/queues/destinations/try", {"name": "bank"}, headers=headers)
    assert tried.status_code == (200 if headers else 302)
    assert Destination.objects.get(name="bank").retry_at <= at()
    assert woken == ["wh_outbox"]
    for name, said in (("mail", "It is up."), ("elsewhere", "There is no such destination.")):
        refused = page.post("/queues/destinations/try", {"name": name}, headers=headers)
        assert refused.status_code == 409
        assert said in refused.content.decode()


@pytest.mark.parametrize("name", ["\x00", "x" * 5_000])
def test_names_that_nothing_can_have_are_409(page, name):
    let_go = {"queue": name, "stream": str(UUID(int=1)), "letter": str(UUID(int=1))}

    assert page.post("/queues/destinations/try", {"name": name}).status_code == 409
    assert page.post("/queues/streams/let-go", let_go).status_code == 409
    assert page.post("/queues/pause", {"what": "inbox_type", "value": name}).status_code == 422
    reason = {"what": "inbox", "reason": name}
    assert page.post("/queues/pause", reason).status_code == 302


@pytest.mark.parametrize("address", ["/queues/", "/queues/workers/", "/queues/destinations/", "/queues/streams/"])
def test_a_fragment_is_a_part_of_its_page(page, address):
    whole, part = page.get(address).content.decode(), page.get(address, headers=HTMX).content.decode()

    assert "<html" in whole
    assert part.lstrip().startswith("<section")
    assert "<html" not in part


def test_an_empty_system_says_that_all_is_well(page):
    said = {
        "/queues/streams/": "No stream is held.",
        "/queues/destinations/": "Every destination is up.",
        "/queues/workers/": "No worker has reported in.",
        "/queues/inbox/": "Nothing waits here.",
    }

    for address, words in said.items():
        assert words in page.get(address).content.decode()
    assert not InboxMessage.objects.exists()
