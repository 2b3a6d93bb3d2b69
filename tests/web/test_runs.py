"""The pages of recovery runs: the list, what a run would do, its start, and how it goes."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters.models import ItemState, OperatorAction, RecoveryItem, RecoveryStatus, RunKind, RunState
from tests.addresses import address
from tests.factories import NOON, a_letter, a_run
from tests.web.conftest import HTMX, text_of

pytestmark = pytest.mark.django_db
EVERY_STATE = [
    ItemState.RECOVERED,
    ItemState.FAILED_AGAIN,
    ItemState.FAILED_DIFFERENTLY,
    ItemState.SKIPPED,
    ItemState.NO_ANSWER,
    ItemState.SENT,
    ItemState.WAITING,
]


def a_run_in_every_state(**fields):
    letters = [a_letter(message_type=f"type.Number{n}") for n in range(len(EVERY_STATE))]
    return a_run(letters, states=EVERY_STATE, **fields)


def test_the_list_says_when_the_schedule_is_suspended(page):
    assert "is suspended" not in text_of(page.get("/runs/"))
    now = timezone.now()
    for minutes in (1, 2, 3):
        at = now - timedelta(minutes=minutes)
        a_run([a_letter()], kind=RunKind.SCHEDULE, created_at=at, starts_at=at, fresh_count=1)

    assert "The schedule is suspended until" in text_of(page.get("/runs/"))


def test_the_list_shows_who_recovers_what_and_what_became_of_it(page):
    a_run_in_every_state(state=RunState.RUNNING, started_at=NOON, reason="the bank is back", actor="vera")

    content = text_of(page.get("/runs/"))
    assert "7 picked letters" in content
    assert "by a person: vera" in content
    assert "the bank is back" in content
    assert 'aria-label="1 recovered, 1 failed again, 1 failed differently, 1 no answer, 1 skipped,' in content


def test_the_list_is_filtered_in_the_address_and_refuses_what_is_not_a_filter(page):
    a_run(scope_words="first", state=RunState.FINISHED)
    a_run(scope_words="second", kind=RunKind.REPLAY, state=RunState.PAUSED)

    assert "first" not in text_of(page.get("/runs/?state=paused&kind=replay"))
    assert "Recovery runs that are paused, begun for a new build" in text_of(
        page.get("/runs/?state=paused&kind=replay")
    )
    assert page.get("/runs/?state=gone").status_code == 400
    assert page.get("/runs/?colour=red").status_code == 400
    assert "No run matches." in text_of(page.get("/runs/?actor=nobody"))


def test_an_empty_list_says_how_a_run_is_begun(page):
    assert "Nothing was recovered in a run yet." in text_of(page.get("/runs/"))


def test_the_list_renews_itself_without_a_step_in_the_browsers_history(page):
    a_run()

    polled = page.get("/runs/", headers={**HTMX, "HX-Trigger": "results"})
    filtered = page.get("/runs/?state=ready", headers=HTMX)

    assert "HX-Push-Url" not in polled.headers
    assert filtered.headers["HX-Push-Url"] == "/runs/?state=ready"
    assert "<html" not in text_of(filtered)


def test_the_list_costs_the_same_however_many_runs_it_shows(page):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            page.get("/runs/")
        return len(queries)

    a_run([a_letter()])
    before = cost()
    for _ in range(5):
        a_run([a_letter()])

    assert cost() == before


def test_a_run_that_collects_its_letters_says_so_and_asks_again(page):
    run = a_run(state=RunState.FREEZING)

    content = text_of(page.get(address("run", run)))
    assert "Collecting its letters" in content
    assert "Nothing is sent before you have seen it and started it." in content
    assert "every 2s" in content
    assert "start" not in [form for form in content.split('action="') if "start" in form]
    assert "Discard" in content


def test_a_run_that_has_collected_its_letters_is_loaded_anew(page):
    run = a_run([a_letter()])

    response = page.get(f"{address('run_live', run)}?seen=freezing.0.1.0", headers=HTMX)
    assert response.headers["HX-Refresh"] == "true"


def test_the_button_says_how_many_would_go_and_who_holds_the_others(page):
    held = {"status": RecoveryStatus.HELD, "operator_disposition": 2}
    run = a_run([a_letter(), a_letter(**held), a_letter(**held)])

    content = text_of(page.get(address("run", run)))
    shown = '<span data-when="include_held" data-is="off">Recover 1 of 3 letters,</span>'
    other = '<span data-when="include_held" data-is="on" hidden>Recover 3 letters,</span>'
    assert f'{shown}{other} <span data-mirror="canary" data-most="1">1</span> first' in content
    assert "Letters that a person holds, too (2)" in content


def test_a_ready_run_shows_what_would_be_sent_and_a_plan_filled_as_usual(page):
    letters = [a_letter(message_type="billing.ChargeCard", error="CardDeclined: no") for _ in range(3)]
    run = a_run([*letters, a_letter()], states=[ItemState.SKIPPED])
    RecoveryItem.objects.filter(place=0).update(why="already recovered")

    response = page.get(address("run", run))
    content = text_of(response)
    assert "Waits for its start: 3 to send" in content
    assert "already recovered" in content
    assert "No worker is alive" in content
    assert "CardDeclined: no" in content
    assert "Recover 3 letters" in content
    assert f"runs start {run.pk} --count=3" in content
    assert response.context["form"].values["canary"] == "5"
    assert 'name="count"' not in content
    assert "every 2s" not in content


def test_above_a_hundred_letters_the_number_that_the_button_names_is_typed(page, monkeypatch):
    monkeypatch.setattr("deadletters.recovery.runs.CONFIRM_ABOVE", 1)
    run = a_run([a_letter() for _ in range(3)], states=[ItemState.SKIPPED])

    content = text_of(page.get(address("run", run)))
    assert "Type how many letters the run is about: 2" in content
    assert "Recover 2 letters" in content


def test_the_preview_of_a_large_run_comes_after_the_page_or_by_a_link(page, monkeypatch):
    from deadletters.views import runs

    monkeypatch.setattr(runs, "INLINE", 0)
    run = a_run([a_letter(message_type="billing.ChargeCard")])

    content = text_of(page.get(address("run", run)))
    assert f'hx-get="{address("run_preview", run)}" hx-trigger="load"' in content
    assert f'href="{address("run_preview", run)}"' in content
    assert "No worker is alive" not in content
    fragment = text_of(page.get(address("run_preview", run), headers=HTMX))
    assert "No worker is alive" in fragment
    assert "<html" not in fragment
    whole = text_of(page.get(address("run_preview", run)))
    assert "No worker is alive" in whole
    assert "<html" in whole


def test_letters_that_came_since_are_offered_and_not_swallowed(page):
    old = a_letter(message_type="billing.ChargeCard")
    run = a_run([old], scope={"filter": {"type": "billing.ChargeCard"}}, frozen_at=old.dead_lettered_at)
    for _ in range(2):
        a_letter(message_type="billing.ChargeCard")

    content = text_of(page.get(address("run", run)))
    assert "2 letters that match have died since it was frozen. They are not in it." in content
    assert 'name="filter" value="type=billing.ChargeCard"' in content


def test_a_running_run_shows_every_state_in_numbers_and_names_what_stays_when_stopped(page):
    run = a_run_in_every_state(state=RunState.RUNNING, started_at=timezone.now(), wave=1, plan={"canary": 2})

    content = text_of(page.get(address("run", run)))
    assert "Wave 1: 6 of 7 done or under way" in content
    for state in EVERY_STATE:
        assert f"?state={state}#items" in content
    assert "Stop: 1 letter not sent stays dead" in content
    assert "Pause" in content
    assert "every 2s" in content
    assert "2 first, then waves 4 times as large" in content


@pytest.mark.parametrize(
    ("state", "buttons"),
    [
        (RunState.RUNNING, {"pause", "stop"}),
        (RunState.PAUSED, {"resume", "stop"}),
        (RunState.STOPPED, set()),
        (RunState.FINISHED, set()),
    ],
)
def test_a_run_offers_what_its_state_allows(page, state, buttons):
    run = a_run([a_letter()], state=state, started_at=NOON)

    content = text_of(page.get(address("run", run)))
    assert {name for name in ("pause", "resume", "stop") if f'value="{name}"' in content} == buttons
    assert {name for name in ("pause", "resume", "stop") if f"runs {name} {run.pk}" in content} == buttons


def test_a_run_that_is_being_stopped_is_not_stopped_again(page):
    run = a_run([a_letter()], state=RunState.RUNNING, started_at=NOON, stop_reason="stopped by vera")

    content = text_of(page.get(address("run", run)))
    assert "Ends, stopped by vera: 1 not sent stays dead" in content
    assert 'value="stop"' not in content


def test_an_ended_run_is_polled_only_while_something_is_unanswered(page):
    done = a_run([a_letter()], states=[ItemState.RECOVERED], state=RunState.FINISHED)
    waits = a_run([a_letter()], states=[ItemState.SENT], state=RunState.STOPPED, stop_reason="4 of 5 answered failed")

    assert "every" not in text_of(page.get(address("run", done)))
    content = text_of(page.get(address("run", waits)))
    assert "every 2s" in content
    assert "Stopped: 4 of 5 answered failed. 1 still without an answer" in content


def test_a_poll_answers_with_nothing_until_something_changed(page):
    run = a_run([a_letter()], state=RunState.RUNNING, started_at=timezone.now())
    response = page.get(address("run", run))
    seen = response.context["seen"]

    assert page.get(f"{address('run_live', run)}?seen={seen}", headers=HTMX).status_code == 204
    RecoveryItem.objects.update(state=ItemState.SKIPPED, ended_at=NOON)
    changed = page.get(f"{address('run_live', run)}?seen={seen}", headers=HTMX)
    assert changed.status_code == 200
    assert 'id="timeline"' in text_of(changed)
    assert "<html" not in text_of(changed)
    assert page.get(address("run_live", run)).headers["Location"] == address("run", run)


def test_the_letters_of_a_run_are_filtered_and_paged_and_lead_to_their_pages(page):
    run = a_run_in_every_state(state=RunState.RUNNING, started_at=NOON)
    failed = RecoveryItem.objects.get(state=ItemState.FAILED_AGAIN)

    content = text_of(page.get(f"{address('run', run)}?state=failed_again"))
    assert reverse("deadletters:letter", args=[failed.dead_letter_id]) in content
    assert "type.Number0" not in content.partition('id="items"')[2].partition("</section>")[0]
    fragment = page.get(f"{address('run', run)}?state=failed_again&size=25", headers=HTMX)
    assert fragment.headers["HX-Push-Url"].endswith("?state=failed_again&size=25")
    assert page.get(f"{address('run', run)}?state=gone").status_code == 400
    assert page.get(f"{address('run', run)}?after=x").status_code == 400


def test_why_a_letter_waits_or_ended_is_shown_with_what_is_left_of_a_purged_one(page):
    letters = [a_letter(), a_letter(), a_letter()]
    run = a_run(letters, states=[ItemState.SKIPPED, ItemState.SENT, ItemState.SENT], state=RunState.RUNNING)
    RecoveryItem.objects.filter(place=0).update(why="changed since frozen")
    RecoveryItem.objects.filter(place=1).update(delayed_until=timezone.now() + timedelta(hours=2, minutes=1))
    gone = letters[2].pk
    letters[2].delete()

    content = text_of(page.get(address("run", run)))
    assert "changed since frozen" in content
    assert "its handler put it off:" in content
    assert "in 2 h" in content
    assert "the letter was purged" in content
    assert str(gone) in content


def test_what_people_did_to_a_run_is_told(page):
    run = a_run([a_letter()], state=RunState.STOPPED)
    for action, after in (
        ("run_prepare", {}),
        ("run_start", {"letters": 1204, "plan": {"canary": 5}}),
        ("run_pause", {}),
        ("run_resume", {}),
        ("run_stop", {"not_sent": 700}),
    ):
        OperatorAction.objects.create(actor="vera", action=action, run_id=run.pk, after=after, reason="so")

    content = text_of(page.get(address("run", run)))
    for said in ("Prepared it", "Started it, 1,204 letters, 5 first", "Paused it", "Resumed it", "Stopped it, 700 not"):
        assert said in content


def test_hostile_names_are_text_and_secrets_are_masked(page):
    letter = a_letter(message_type="<b>x</b>", error="Error: password=hunter2hunter2")
    run = a_run(
        [letter],
        state=RunState.PAUSED,
        scope_words="with “<i>x</i>” in them, Bearer abcdefghijklmnopqrstuvwxyz",
        actor="<u>olga</u>",
        reason="<s>why</s>",
    )

    for content in (text_of(page.get("/runs/")), text_of(page.get(address("run", run)))):
        for raw in ("<b>x</b>", "<i>x</i>", "<u>olga", "<s>why", "abcdefghijklmnopqrstuvwxyz", "hunter2hunter2"):
            assert raw not in content


def test_a_run_of_which_another_version_wrote_the_plan_is_shown(page):
    run = a_run([a_letter()], plan={"colour": "red"}, scope={"x": 1})

    assert page.get(address("run", run)).status_code == 200


@pytest.mark.parametrize("name", ["run", "run_preview"])
def test_there_is_no_such_run(page, name):
    missing = reverse(f"deadletters:{name}", args=[uuid4()])

    assert "There is no such run." in text_of(page.get(missing))
    assert page.get(missing, headers=HTMX).status_code == 404


def test_a_page_of_many_letters_costs_as_much_as_one_of_few(page):
    few, many = (
        a_run([a_letter()], state=RunState.RUNNING),
        a_run([a_letter() for _ in range(9)], state=RunState.RUNNING),
    )

    def cost(run):
        with CaptureQueriesContext(connection) as queries:
            page.get(address("run", run))
        return len(queries)

    assert cost(few) == cost(many)
