"""The queues as a whole: sources, pauses, held streams, destinations, workers."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from deadletters.models import Generation, OperatorAction
from deadletters.queries import depths, queues
from deadletters.words.filters import StreamFilter
from queues import wakeups
from queues.models import Destination, InboxMessage, ServiceInstance, SourcePause, Stream
from queues.stats import stats
from queues.words.sources import STOPPED_UNTIL
from tests.db.rows import write_row
from tests.factories import a_letter, a_run
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

IN_FORM = {**HTMX, "HX-Target": "pause"}


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    """Note the sources whose drainers would be woken."""
    sources = []
    monkeypatch.setattr(wakeups, "wake", sources.append)
    return sources


def at(**span):
    return timezone.now() + timedelta(**span)


def a_worker(**named):
    values = {"service_name": "shop", "host_name": "host-a", "process_id": 7, "instance_id": uuid4(), **named}
    return ServiceInstance.objects.create(**values)


def lease():
    return {"lease_token": uuid4(), "lease_expiry": at(minutes=1), "instance_id": uuid4()}


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


def a_held_stream(number=1, queue="wh_inbox", **fields):
    letter = a_letter(stream_id=UUID(int=number), **fields)
    Stream.objects.create(queue=queue, stream_id=UUID(int=number), due_at=STOPPED_UNTIL, held_by=letter.pk)
    return letter


# --- sources


def test_the_overview_counts_each_message_once_by_what_it_waits_for(page, of_each_state):
    inbox, outbox, _ = page.get("/queues/").context["depths"]

    assert inbox.parts == {"waiting": 3, "in_flight": 2, "delayed": 1, "held": 3, "paused": 1, "stopped": 1}
    assert (inbox.depth, inbox.held_streams, inbox.capped) == (11, 1, set())
    assert (outbox.depth, sum(outbox.parts.values()), outbox.oldest_due_at) == (0, 0, None)


def test_the_tiles_add_up_and_each_leads_to_as_many_messages(page, of_each_state):
    inbox = page.get("/queues/").context["depths"][0]

    assert {state: page.get(f"/queues/inbox/?state={state}").context["page"].total for state in inbox.parts} == dict(
        inbox.parts
    )
    assert inbox.depth == sum(inbox.parts.values())


def test_a_message_is_counted_as_the_statistics_count_it(page, of_each_state):
    inbox, counted = dict(page.get("/queues/").context["depths"][0].parts), stats().sources[0].present

    inbox["waiting"] += inbox.pop("paused")
    assert inbox == {state: getattr(counted, state) for state in inbox}


def test_the_oldest_is_the_first_that_really_waits_for_a_worker(page, of_each_state):
    inbox = page.get("/queues/").context["depths"][0]

    assert inbox.oldest_due_at == InboxMessage.objects.get(pk=of_each_state["returned"]).scheduled_for
    InboxMessage.objects.filter(pk__in=[of_each_state["returned"], of_each_state["lapsed"]]).delete()
    assert "What waits stands behind something else." in page.get("/queues/").content.decode()


def test_what_waits_for_a_destination_that_is_down_waits_for_no_worker(page):
    write_row("wh_outbox", stream_id=None, destination="bank", scheduled_for=at(hours=-2))
    Destination.objects.create(name="bank", state="open", opened_at=at(), retry_at=at(minutes=5))

    outbox = page.get("/queues/").context["depths"][1]
    assert (outbox.parts["waiting"], outbox.oldest_due_at) == (1, None)


def test_counts_end_where_looking_does_and_say_so(page, monkeypatch):
    monkeypatch.setattr(depths, "LOOKED_AT", 2)
    for number in range(4):
        write_row("wh_inbox", stream_id=None, scheduled_for=at(hours=-number), **(lease() if number > 1 else {}))
    write_row("wh_inbox", stream_id=None, scheduled_for=STOPPED_UNTIL)

    answer = page.get("/queues/")
    inbox = answer.context["depths"][0]
    assert (inbox.depth, inbox.parts["in_flight"], inbox.parts["stopped"]) == (5, 2, 1)
    assert inbox.capped == {"waiting", "in_flight", "held", "paused"}
    content = answer.content.decode()
    assert ">2+</a>" in content
    assert "Of the 2 that are due first none waits for a worker." in content


def test_a_leased_stream_is_in_flight_with_its_first_message_in_each_perspective(page):
    for name in ("totals", "totals", "other"):
        write_row("wh_perspective_events", stream_id=UUID(int=1), perspective_name=name, event_id=uuid4())
    Stream.objects.create(queue="wh_perspective_events:totals", stream_id=UUID(int=1), due_at=at(), **lease())

    perspectives = page.get("/queues/").context["depths"][2]
    assert (perspectives.parts["in_flight"], perspectives.parts["waiting"]) == (1, 2)


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
    assert page.get("/queues/workers/").context["unhandled"] == ["by.Hand", "totals"]

    made = SourcePause.objects.create(source="wh_inbox", paused_by="lea", **paused)
    assert page.get("/queues/workers/").context["unhandled"] == ["totals"]
    SourcePause.objects.filter(pk=made.pk).update(until=at(minutes=-1))
    assert page.get("/queues/workers/").context["unhandled"] == ["by.Hand", "totals"]


# --- pauses


def many_pauses(number):
    """Pause other types, later than anything else."""
    rows = [
        SourcePause(source="wh_inbox", kind="type", value=f"t.{n}", paused_by="lea", paused_at=at(hours=1))
        for n in range(number)
    ]
    SourcePause.objects.bulk_create(rows)


def test_a_message_is_paused_however_many_pauses_there_are(page):
    message_id = write_row("wh_inbox", stream_id=None)
    SourcePause.objects.create(source="wh_inbox", kind="type", value="by.Hand", paused_by="lea", paused_at=at(days=-1))
    many_pauses(1_100)

    assert [row.state for row in page.get("/queues/inbox/").context["page"].rows] == ["paused"]
    assert page.get(f"/queues/inbox/{message_id}/").context["live"].pause.value == "by.Hand"
    assert page.get("/queues/").context["depths"][0].parts["paused"] == 1


def test_the_overview_shows_the_newest_pauses_and_how_many_more_there_are(signed_in, operator):
    many_pauses(60)
    SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea", paused_at=at(days=-1))

    answer = signed_in(operator).get("/queues/")
    assert len(answer.context["pauses"]) == 50
    content = answer.content.decode()
    assert "and 10 more" in content
    assert reverse("admin:queues_sourcepause_changelist") not in content
    operator.is_staff = True
    operator.save()
    assert reverse("admin:queues_sourcepause_changelist") in signed_in(operator).get("/queues/").content.decode()


@pytest.mark.parametrize(
    ("what", "value", "row"),
    [
        ("inbox", "", ("wh_inbox", "source", "")),
        ("inbox_type", " shop.PlaceOrder ", ("wh_inbox", "type", "shop.PlaceOrder")),
        ("destination", "bank", ("wh_outbox", "destination", "bank")),
        ("perspective", "totals", ("wh_perspective_events", "type", "totals")),
    ],
)
@pytest.mark.parametrize("headers", [{}, IN_FORM])
def test_a_pause_is_shown_with_who_and_why_and_ends_with_a_resume(page, woken, what, value, row, headers):
    typed = {"what": what, "value": value, "reason": "the bank <is> down", "until": f"{at(days=1):%Y-%m-%dT%H:%M}"}
    paused = page.post("/queues/pause", typed, headers=headers)

    assert paused.status_code == (200 if headers else 302)
    made = SourcePause.objects.get()
    assert (made.source, made.kind, made.value, made.paused_by) == (*row, "olga")
    content = page.get("/queues/").content.decode()
    assert "the bank &lt;is&gt; down" in content
    assert "olga" in content
    assert row[2] in content

    resumed = page.post(reverse("deadletters:resume", args=[made.pk]), headers=HTMX if headers else {})
    assert resumed.status_code == (200 if headers else 302)
    assert not SourcePause.objects.exists()
    assert woken == [row[0]]


@pytest.mark.parametrize("headers", [{}, IN_FORM])
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"what": "inbox", "value": "x"}, "Value must be empty for a whole source."),
        ({"what": "inbox_type"}, "Value must name what is paused."),
        ({"what": "everything"}, "What must be one of those in the list."),
        ({"what": ""}, "What must be one of those in the list."),
        ({}, "What must be one of those in the list."),
        ({"what": "inbox", "until": "soon"}, "Until must be a date and a time"),
        ({"what": "inbox", "until": "2001-01-01T00:00"}, "Until must be in the future."),
    ],
)
def test_a_pause_that_cannot_be_is_422_with_what_was_typed(page, headers, typed, said):
    answer = page.post("/queues/pause", {"reason": "kept as typed", **typed}, headers=headers)

    assert answer.status_code == 422
    content = answer.content.decode()
    assert said in content
    assert "kept as typed" in content
    assert not SourcePause.objects.exists()


@pytest.mark.parametrize("headers", [{}, HTMX, IN_FORM])
def test_what_is_paused_or_resumed_already_is_409_with_how_it_is(page, headers):
    made = SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea")

    again = page.post("/queues/pause", {"what": "inbox"}, headers=headers)
    assert again.status_code == 409
    assert "It is paused already." in again.content.decode()
    assert "lea" in again.content.decode()
    SourcePause.objects.all().delete()
    gone = page.post(reverse("deadletters:resume", args=[made.pk]), headers=headers)
    assert gone.status_code == 409
    assert "Somebody has resumed it already." in gone.content.decode()
    assert not OperatorAction.objects.exists()


def test_a_pause_that_is_over_is_not_shown(page):
    SourcePause.objects.create(source="wh_inbox", kind="type", value="t.Over", paused_by="lea", until=at(hours=-1))

    assert "t.Over" not in page.get("/queues/").content.decode()


def test_a_pause_of_a_source_answers_with_the_sources_or_with_the_form(page):
    assert b'id="pause"' not in page.post("/queues/pause", {"what": "inbox"}, headers=HTMX).content
    in_form = page.post("/queues/pause", {"what": "outbox"}, headers=IN_FORM).content.decode()

    assert 'id="pause"' in in_form
    assert 'hx-swap-oob="true"' in in_form


def test_the_form_to_pause_offers_nothing_until_something_is_chosen(page):
    first = '<select name="what" required><option value="">Choose what</option>'

    assert first in page.get("/queues/").content.decode()
    typed = {"what": "inbox_type", "value": "t.One"}
    assert first in page.post("/queues/pause", typed, headers=IN_FORM).content.decode()


def test_those_who_may_only_look_see_pauses_and_no_button(signed_in, viewer):
    SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea", reason="the bank")

    content = signed_in(viewer).get("/queues/").content.decode().partition("<main")[2].partition("</main>")[0]
    assert "the bank" in content
    assert "You lack the right to pause." in content
    assert "<form" not in content


# --- streams


def test_a_held_stream_is_listed_with_its_letter_and_what_waits_behind_it(page):
    letter = a_held_stream(error="CardDeclined: no funds")
    for _ in range(3):
        write_row("wh_inbox", stream_id=UUID(int=1))
    write_row("wh_outbox", stream_id=UUID(int=1))

    answer = page.get("/queues/streams/")
    (row,) = answer.context["page"].rows
    assert (row.held_by, row.behind, row.is_capped) == (letter.pk, 3, False)
    assert "CardDeclined" in answer.content.decode()
    assert reverse("deadletters:letter", args=[letter.pk]) in answer.content.decode()


def test_what_waits_behind_a_letter_is_counted_up_to_a_cap(page, monkeypatch):
    monkeypatch.setattr(queues, "MAX_BEHIND", 2)
    a_held_stream()
    for _ in range(4):
        write_row("wh_inbox", stream_id=UUID(int=1))

    (row,) = page.get("/queues/streams/").context["page"].rows
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


# --- destinations


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


# --- workers


def test_workers_are_alive_by_the_clock_of_the_database_and_say_what_they_run(page, settings):
    running = {"id": str(uuid4()), "type": "shop.PlaceOrder", "attempt": 3, "started_at": at(seconds=-9).isoformat()}
    a_worker(
        metadata={
            "generation": "build-9",
            "types": ["shop.PlaceOrder"],
            "perspectives": {"totals": ["x"]},
            "draining": "wh_inbox",
            "message": running,
            "ticked_at": at(seconds=-3).isoformat(),
        }
    )
    silent = a_worker(host_name="host-b", last_heartbeat_at=at(seconds=-61), metadata={"types": ["by.Hand"]})
    write_row("wh_inbox", scheduled_for=at(minutes=-1))
    write_row("wh_perspective_events", scheduled_for=at(minutes=-1))

    answer = page.get("/queues/workers/")
    first, second = answer.context["workers"]
    assert (first.is_alive, first.generation, first.running.attempt) == (True, "build-9", "3")
    assert (second.instance_id, second.is_alive) == (silent.pk, False)
    assert answer.context["unhandled"] == ["by.Hand"]
    content = answer.content.decode()
    for said in ("1 is alive.", "shop.PlaceOrder", "build-9", "Silent", "No live worker handles"):
        assert said in content


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        3,
        {"types": "x", "message": "y", "perspectives": [1], "ticked_at": "never"},
        {"message": {"type": "t"}},
    ],
)
def test_a_worker_whose_metadata_is_anything_is_shown(page, metadata):
    a_worker(metadata=metadata)

    assert "host-a" in page.get("/queues/workers/").content.decode()


def test_metadata_that_nests_too_deep_is_not_parsed(page):
    worker = a_worker()
    with connection.cursor() as cursor:
        deep = "[" * 3000 + "]" * 3000
        cursor.execute(
            "UPDATE wh_service_instances SET metadata = jsonb_build_object('types', %s::jsonb) WHERE instance_id = %s",
            [deep, worker.pk],
        )

    assert "host-a" in page.get("/queues/workers/").content.decode()


def test_the_last_builds_are_shown_with_what_each_replayed_and_lead_to_its_runs(page):
    for build in ("build-1", "build-2 & more"):
        Generation.objects.create(service="shop", build=build)
    letters = [a_letter() for _ in range(3)]
    replay = {"kind": "replay", "generation": "build-2 & more", "state": "finished"}
    a_run(letters, group_id=uuid4(), states=["recovered", "recovered", "failed_again"], **replay)
    a_run(letters[:1], kind="person", generation="build-1")

    answer = page.get("/queues/workers/")
    new, old = answer.context["builds"]
    assert (new.groups, new.letters, new.totals["recovered"], old.groups) == (1, 3, 2, 0)
    content = answer.content.decode()
    assert "nothing replayed" in content
    address = "/runs/?kind=replay&amp;generation=build-2%20%26%20more"
    assert f'href="{address}"' in content

    listed = page.get(address.replace("&amp;", "&"))
    assert [row.run.generation for row in listed.context["page"].rows] == ["build-2 & more"]
    assert "Recovery runs begun for a new build, on build build-2 &amp; more" in listed.content.decode()


def test_the_builds_cost_the_same_however_many_there_are_and_are_not_polled(page, django_assert_max_num_queries):
    for number in range(12):
        Generation.objects.create(service="shop", build=f"build-{number}")

    with django_assert_max_num_queries(16):
        answer = page.get("/queues/workers/")
    assert len(answer.context["builds"]) == 10
    assert "builds" not in page.get("/queues/workers/", headers=HTMX).context


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
