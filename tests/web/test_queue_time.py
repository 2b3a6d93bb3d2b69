"""A locked table takes its own part of the pages of the queues, and no other."""

from uuid import UUID, uuid4

import pytest

from queues.models import Destination, SourcePause, Stream
from tests.db.rows import write_row
from tests.factories import a_letter, a_user
from tests.locking import locked
from tests.web.conftest import HTMX, text_of
from tests.web.waiting import a_worker, at, lease

pytestmark = pytest.mark.django_db(transaction=True)

SOURCES = ("wh_inbox", "wh_outbox", "wh_perspective_events")
TAKEN = {
    "wh_inbox": {"wh_inbox", "unhandled"},
    "wh_outbox": {"wh_outbox"},
    "wh_perspective_events": {"wh_perspective_events", "unhandled"},
    "wh_streams": set(SOURCES),
    "source_pauses": {*SOURCES, "paused", "unhandled"},
    "destination_circuits": {"wh_outbox", "down"},
    "wh_service_instances": {"workers", "unhandled"},
    "flow_totals": set(),
}
"""What of the page of all sources each table takes with it."""
SAID = {
    "source_pauses": "Whether it is paused is not known at present.",
    "destination_circuits": "Destinations: took too long.",
    "wh_service_instances": "Workers: took too long.",
}


@pytest.fixture(autouse=True)
def _quick(settings):
    settings.DEADLETTERS = {"REGION_SECONDS": 0.4, "PAGE_SECONDS": 20}


@pytest.fixture
def page(signed_in):
    """The browser of an operator, before a message in each source, one held, and a destination that is down."""
    letter = a_letter(error="CardDeclined: no funds", stream_id=UUID(int=1))
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=1), due_at=at(), held_by=letter.pk)
    Destination.objects.create(name="bank", state="open", opened_at=at(), retry_at=at(minutes=5))
    SourcePause.objects.create(source="wh_inbox", kind="type", value="paused.Type", paused_by="lea")
    a_worker()
    write_row("wh_inbox", stream_id=UUID(int=1), scheduled_for=at(minutes=-1))
    write_row("wh_inbox", stream_id=None, **lease())
    write_row("wh_outbox", stream_id=None, destination="bank")
    write_row("wh_perspective_events", event_id=uuid4())
    return signed_in(a_user("olga", "Operators"))


def missing_of(response) -> set[str]:
    """Return what the page of all sources shows no value of."""
    regions = {card.source: card.depth for card in response.context["cards"]}
    regions |= {name: response.context[name] for name in ("paused", "workers", "unhandled", "down")}
    assert {region.trouble for region in regions.values()} <= {None, "slow"}
    return {name for name, region in regions.items() if region.trouble}


@pytest.mark.parametrize("table", TAKEN)
def test_the_sources_are_shown_without_what_a_locked_table_takes(page, table):
    with locked(table):
        response = page.get("/queues/")

    assert response.status_code == 200
    assert missing_of(response) == TAKEN[table]
    assert {card.source: card.total for card in response.context["cards"]} == dict(zip(SOURCES, (2, 1, 1), strict=True))
    said = text_of(response)
    assert SAID.get(table, "") in said
    assert said.count("By state: took too long.") == len(TAKEN[table] & set(SOURCES))


def test_without_its_counters_a_source_says_how_many_only_where_all_were_looked_at(page, monkeypatch):
    monkeypatch.setattr("deadletters.queries.depths.LOOKED_AT", 1)

    with locked("flow_totals"):
        response = page.get("/queues/")
    assert [card.total for card in response.context["cards"]] == [None, 1, 1]
    assert "not known at present" in text_of(response)


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_pause_and_resume_answer_while_a_source_is_locked(page, woken, headers):
    with locked("wh_outbox"):
        paused = page.post("/queues/pause", {"what": "inbox"}, headers=headers)
        pause = SourcePause.objects.get(kind="source")
        again = page.post("/queues/pause", {"what": "inbox"}, headers=headers)
        resumed = page.post(f"/queues/pauses/{pause.pk}/resume", headers=headers)

    assert (paused.status_code, again.status_code, resumed.status_code) == (
        *((200, 409, 200) if headers else (302, 409, 302)),
    )
    assert missing_of(again) == {"wh_outbox"}
    assert not SourcePause.objects.filter(kind="source").exists()


@pytest.mark.parametrize(
    ("table", "missing", "said"),
    [
        ("wh_dead_letters", "letters", "The letters: took too long."),
        ("wh_outbox", "behind", "What waits behind them: took too long."),
        ("wh_streams", "region", "Took too long."),
    ],
)
def test_held_streams_are_shown_without_what_a_locked_table_takes(page, table, missing, said):
    with locked(table):
        response = page.get("/queues/streams/")

    assert response.status_code == 200
    assert {name for name in ("region", "letters", "behind") if response.context[name].trouble} == {missing}
    assert said in text_of(response)
    rows = response.context["rows"]
    assert [(row.letter is None, row.behind) for row in rows] == {
        "letters": [(True, 1)], "behind": [(False, None)], "region": [],
    }[missing]  # fmt: skip
    assert "a letter that is gone" not in text_of(response)


@pytest.mark.parametrize(
    ("address", "table", "missing"),
    [
        ("/queues/destinations/", "destination_circuits", {"region"}),
        ("/queues/workers/", "wh_service_instances", {"region", "unhandled"}),
        ("/queues/workers/", "wh_inbox", {"unhandled"}),
        ("/queues/workers/", "source_pauses", {"unhandled"}),
        ("/queues/workers/", "generations", {"builds"}),
        ("/queues/inbox/", "wh_inbox", {"region"}),
        ("/queues/inbox/", "wh_service_instances", {"around"}),
        ("/queues/outbox/", "destination_circuits", {"around"}),
    ],
)
def test_a_list_is_shown_without_what_a_locked_table_takes(page, address, table, missing):
    with locked(table):
        response = page.get(address)

    assert response.status_code == 200
    known = {name: response.context.get(name) for name in ("region", "unhandled", "builds", "around")}
    assert {name for name, region in known.items() if getattr(region, "trouble", None)} == missing
    assert "took too long." in text_of(response).lower()
    assert bool(response.context.get("rows")) == ("around" in missing)


@pytest.mark.parametrize("table", ["delivery_log", "operator_actions"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_message_is_shown_without_its_timeline(page, table, is_gone):
    message = write_row("wh_inbox")
    here = f"/queues/inbox/{uuid4() if is_gone else message}/"

    with locked(table):
        response = page.get(here)
    assert response.status_code == (404 if is_gone else 200)
    assert "took too long." in text_of(response).lower()
    assert "Nothing yet." not in text_of(response)
    assert ("what became of it could not be read" in text_of(response)) == is_gone
