"""Pauses on the pages: shown with who and why, begun and ended, and none too many."""

import pytest
from django.urls import reverse

from deadletters.models import OperatorAction
from queues.models import SourcePause
from tests.db.rows import write_row
from tests.web.conftest import HTMX
from tests.web.waiting import at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken")]
IN_FORM = {**HTMX, "HX-Target": "pause"}


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
    assert page.get("/queues/").context["cards"][0].depth.value.parts["paused"] == 1


def test_the_overview_shows_the_newest_pauses_and_how_many_more_there_are(signed_in, operator):
    many_pauses(60)
    SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea", paused_at=at(days=-1))

    answer = signed_in(operator).get("/queues/")
    assert len(answer.context["paused"].value.parts) == 50
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
