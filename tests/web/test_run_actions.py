"""What operators do with runs: prepare, start, pause, resume, stop; twice, too late, and by mistake."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from deadletters.models import (
    DeadLetter,
    FailureGroup,
    ItemState,
    OperatorAction,
    RecoveryItem,
    RecoveryRun,
    RecoveryStatus,
    RunState,
)
from deadletters.recovery import runs as service
from deadletters.recovery.stepping import step
from queues import wakeups
from queues.models import InboxMessage
from tests.addresses import address
from tests.factories import a_letter, a_run
from tests.web.conftest import HTMX, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    """Note which wake-ups would be sent."""
    sent = []
    monkeypatch.setattr(wakeups, "send", lambda wakeup: sent.append(wakeup.task))
    return sent


PREPARE = "/runs/prepare"


def matching(filters, **more):
    return {"scope": "matching", "filter": filters, **more}


def prepared(page, data):
    """Prepare a run as a form does, and return it."""
    response = page.post(PREPARE, data)
    run = RecoveryRun.objects.get()
    assert response.headers["Location"] == address("run", run)
    return run


# --- what is recovered


def test_a_filter_becomes_a_run_of_the_letters_that_match(page):
    wanted = a_letter(message_type="billing.ChargeCard")
    a_letter(message_type="crm.SyncContact")
    a_letter(message_type="billing.ChargeCard", status=RecoveryStatus.RECOVERED)

    run = prepared(page, matching("type=billing.ChargeCard&size=25"))

    assert (run.state, run.frozen_count) == (RunState.READY, 1)
    assert RecoveryItem.objects.get().dead_letter_id == wanted.pk
    assert DeadLetter.objects.get(pk=wanted.pk).recovery_status == RecoveryStatus.PENDING
    assert "Dead letters type billing.ChargeCard" in text_of(page.get(address("run", run)))


def test_picked_letters_become_a_run_of_them(page):
    picked = [a_letter(), a_letter()]
    a_letter()

    run = prepared(page, {"scope": "picked", "letter": [str(letter.pk) for letter in picked]})

    assert set(RecoveryItem.objects.values_list("dead_letter_id", flat=True)) == {letter.pk for letter in picked}
    assert run.scope_words == "2 picked letters"


def test_a_run_of_a_group_is_known_on_its_page(page):
    a_letter(error="CardDeclined: no funds")
    counting.fold()
    group = FailureGroup.objects.get()

    run = prepared(page, matching(f"group={group.pk}"))

    assert run.group_id == group.pk
    assert address("run", run) in text_of(page.get(reverse("deadletters:group", args=[group.pk])))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "Say which letters"),
        ({"scope": "all"}, "Say which letters"),
        ({"scope": "picked"}, "No letter is picked."),
        ({"scope": "picked", "letter": ["x", ""]}, "No letter is picked."),
        (matching(""), "No filter is given"),
        (matching("colour=red"), "There is no filter “colour”"),
        (matching("type=a&type=b"), "given twice"),
        (matching("status=gone"), "“gone” is no status"),
    ],
)
def test_what_is_not_understood_makes_no_run(page, data, said):
    a_letter()

    response = page.post(PREPARE, data)

    assert response.status_code == 422
    assert said in response.content.decode().replace("&quot;", '"')
    assert not RecoveryRun.objects.exists()


def test_everything_is_recovered_only_where_that_is_said(page):
    a_letter()

    assert prepared(page, matching("", everything="yes")).frozen_count == 1


def test_letters_that_are_many_are_not_frozen_in_the_request(page, monkeypatch, django_capture_on_commit_callbacks):
    """R4: the request that asks for 100,000 letters writes one row, and a worker collects them."""
    monkeypatch.setattr(service, "FROZEN_AT_ONCE", 2)
    for _ in range(3):
        a_letter()

    with django_capture_on_commit_callbacks(execute=True):
        run = prepared(page, matching("type=shop.PlaceOrder"))

    assert run.state == RunState.FREEZING
    assert not RecoveryItem.objects.exists()
    content = text_of(page.get(address("run", run)))
    assert "Collecting its letters" in content
    assert "every 2s" in content
    step(5)
    run.refresh_from_db()
    assert (run.state, run.frozen_count) == (RunState.READY, 3)
    assert "Recover 3 letters" in text_of(page.get(address("run", run)))


def test_letters_are_sent_in_the_waves_of_the_plan_and_never_all_at_once(page):
    """R4: what is started sends its canary, and nothing else before that is answered."""
    letters = [a_letter() for _ in range(8)]
    run = prepared(page, matching("type=shop.PlaceOrder"))

    page.post(address("start_run", run), {"canary": "2"})
    step(5)

    assert InboxMessage.objects.count() == 2
    assert DeadLetter.objects.filter(recovery_status=RecoveryStatus.RECOVERING).count() == 2
    assert len(letters) == 8
    content = text_of(page.get(address("run", run)))
    assert "Canary: 0 of 2 answered" in content
    assert "Stop: 6 letters not sent stay dead" in content


def test_a_recovered_letter_does_not_come_back_into_the_next_run(page):
    """R1: asking for everything again and again ends, since each run has its own frozen letters."""
    a_letter()
    done = a_letter()
    DeadLetter.objects.filter(pk=done.pk).update(recovery_status=RecoveryStatus.RECOVERED, recovered_at=timezone.now())

    run = prepared(page, matching("", everything="yes"))
    a_letter(dead_lettered_at=timezone.now() + timedelta(seconds=1))

    assert run.frozen_count == 1
    assert "1 letter that matches has died since it was frozen." in text_of(page.get(address("run", run)))


def test_a_filter_that_nothing_matches_any_more_ends_at_once_and_says_so(page):
    run = prepared(page, matching("type=shop.PlaceOrder"))

    assert run.state == RunState.FINISHED
    assert "Finished: no letter matches" in text_of(page.get(address("run", run)))


# --- the start


def a_ready_run(page, count=3):
    for _ in range(count):
        a_letter()
    return prepared(page, matching("type=shop.PlaceOrder"))


def test_a_start_keeps_the_plan_that_was_typed_and_says_who_started(page, django_capture_on_commit_callbacks, woken):
    run = a_ready_run(page)
    typed = {
        "canary": "1",
        "ramp": "2.5",
        "rate": "0.5",
        "in_flight": "7",
        "stop_failures": "",
        "stop_percent": "50",
        "deadline_minutes": "1.5",
        "starts_at": "2030-01-31T12:00",
        "include_held": "yes",
        "reason": "the bank is back",
        "row_version": str(run.row_version),
    }

    with django_capture_on_commit_callbacks(execute=True):
        response = page.post(address("start_run", run), typed)

    assert response.headers["Location"] == address("run", run)
    run.refresh_from_db()
    assert run.plan == {
        "canary": 1,
        "ramp": 2.5,
        "rate": 0.5,
        "in_flight": 7,
        "stop_failures": None,
        "stop_share": 0.5,
        "deadline_seconds": 90,
        "include_held": True,
        "starts_at": "2030-01-31T12:00:00+00:00",
    }
    assert woken == ["deadletters.step_runs"]
    content = text_of(page.get(address("run", run)))
    assert "Starts: 3 to send" in content
    assert "Started it, 3 letters, 1 first" in content
    assert "the bank is back" in content


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("canary", "five"),
        ("canary", "-1"),
        ("canary", "1001"),
        ("ramp", "0.5"),
        ("ramp", "nan"),
        ("rate", "0"),
        ("rate", "1e999"),
        ("in_flight", "0"),
        ("in_flight", ""),
        ("stop_failures", "0"),
        ("stop_percent", "0"),
        ("stop_percent", "101"),
        ("deadline_minutes", "0"),
        ("deadline_minutes", "99999"),
        ("starts_at", "tomorrow"),
        ("count", "4"),
        ("count", "many"),
    ],
)
def test_a_plan_that_cannot_be_is_said_at_its_field_and_what_was_typed_stays(page, field, text):
    run = a_ready_run(page)

    response = page.post(address("start_run", run), {"canary": "2", "reason": "because", field: text})

    assert response.status_code == 422
    form = response.context["form"]
    assert list(form.errors) == [field]
    assert form.values[field] == text
    assert form.values["reason"] == "because"
    if field != "count":
        assert f'aria-describedby="error-{field}"' in response.content.decode()
    run.refresh_from_db()
    assert (run.state, run.starts_at) == (RunState.READY, None)


def test_above_a_hundred_letters_a_start_without_their_number_is_refused(page):
    run = a_run([a_letter() for _ in range(101)])

    for wrong in ({}, {"count": "100"}):
        response = page.post(address("start_run", run), wrong)
        assert response.status_code == 422
        assert list(response.context["form"].errors) == ["count"]
        assert 'aria-describedby="error-count"' in response.content.decode()
    assert page.post(address("start_run", run), {"count": " 1 0,1"}).status_code == 302


def test_two_clicks_are_one_start(page):
    """R2: a form that arrives twice recovers once, and the second reads how it stands."""
    run = a_ready_run(page, 2)

    first, second = (page.post(address("start_run", run), {"canary": "0"}) for _ in range(2))
    step(5)

    assert (first.status_code, second.status_code) == (302, 409)
    assert "It was started or discarded before." in text_of(second)
    assert InboxMessage.objects.count() == 2
    assert OperatorAction.objects.filter(action="run_start").count() == 1


def test_two_runs_of_the_same_letters_send_each_once(page):
    """R2: the second of two people's runs skips what the first has sent, and says why."""
    letters = [a_letter(), a_letter()]
    runs = [a_run(letters), a_run(letters)]

    for run in runs:
        page.post(address("start_run", run), {"canary": "0"})
    step(5)

    assert InboxMessage.objects.count() == 2
    states = {run.pk: set(run.items.values_list("state", flat=True)) for run in runs}
    assert sorted(states.values(), key=sorted) == [{ItemState.SENT}, {ItemState.SKIPPED}]
    skipped = next(run for run in runs if states[run.pk] == {ItemState.SKIPPED})
    assert "is being recovered already by olga at" in text_of(page.get(address("run", skipped)))


def test_a_form_that_is_out_of_date_starts_nothing_and_keeps_what_was_typed(page):
    run = a_ready_run(page)

    response = page.post(address("start_run", run), {"row_version": "77", "reason": "because"})

    assert response.status_code == 409
    assert "Somebody changed it meanwhile. Nothing was started." in text_of(response)
    assert response.context["form"].values["reason"] == "because"
    run.refresh_from_db()
    assert run.starts_at is None


# --- while it goes on


def change(page, run, action, **more):
    return page.post(address("change_run", run), {"action": action}, **more)


def test_a_run_is_paused_resumed_and_stopped_with_what_is_sent_and_unsent_told(page):
    run = a_ready_run(page, 3)
    page.post(address("start_run", run), {"canary": "1"})
    step(5)

    assert change(page, run, "pause").status_code == 302
    assert "Paused. Canary: 0 of 1 answered" in text_of(page.get(address("run", run)))
    assert "Canary: 0 of 1 answered" in text_of(change(page, run, "resume", headers=HTMX))
    stopped = text_of(change(page, run, "stop", headers=HTMX))
    assert "<html" not in stopped
    assert "Stopped by olga. 1 still without an answer" in stopped
    assert "2</b> not sent: stopped by olga" in stopped

    states = sorted(RecoveryItem.objects.values_list("state", flat=True))
    assert states == [ItemState.SENT, ItemState.SKIPPED, ItemState.SKIPPED]
    assert set(RecoveryItem.objects.filter(state=ItemState.SKIPPED).values_list("why", flat=True)) == {
        "not sent: stopped by olga"
    }
    content = text_of(page.get(address("run", run)))
    for said in ("Paused it", "Resumed it", "Stopped it, 2 not sent", "not sent: stopped by olga"):
        assert said in content


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_an_action_in_another_state_is_a_sentence_with_the_fresh_state(page, headers):
    run = a_run([a_letter()], states=[ItemState.RECOVERED], state=RunState.FINISHED)

    for action in ("pause", "resume", "stop"):
        response = change(page, run, action, headers=headers)
        assert response.status_code == 409
        assert "It is in another state by now. Nothing was changed." in text_of(response)
        assert "Finished: 1 of 1 recovered" in text_of(response)
    assert not OperatorAction.objects.exists()


def test_a_run_that_was_not_started_is_discarded_and_its_letters_stay(page):
    run = a_ready_run(page)

    change(page, run, "stop")

    run.refresh_from_db()
    assert run.state == RunState.STOPPED
    assert set(DeadLetter.objects.values_list("recovery_status", flat=True)) == {RecoveryStatus.PENDING}
    assert "Stopped by olga" in text_of(page.get(address("run", run)))


def test_a_run_that_is_still_collecting_is_discarded(page):
    run = a_run(state=RunState.FREEZING, scope={"filter": {"type": "shop.PlaceOrder"}})
    a_letter()

    change(page, run, "stop")
    step(5)

    run.refresh_from_db()
    assert run.state == RunState.STOPPED
    assert page.get(address("run", run)).status_code == 200


def test_an_action_that_is_none_is_refused(page):
    run = a_run([a_letter()])

    assert change(page, run, "explode").status_code == 400
    assert page.post(address("change_run", run)).status_code == 400
