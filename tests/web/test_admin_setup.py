"""Policies, pauses, holds and beat rows: set by those who may, each change an operator action."""

import pytest
from django.core.management import call_command
from django.urls import reverse

from deadletters.models import LegalHold, OperatorAction, RecoveryPolicy
from queues.models import SourcePause
from tests.factories import a_letter, a_user
from tests.web.test_admin import address

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(signed_in):
    return signed_in(a_user("lea", "Leads", is_staff=True))


def last_action():
    return OperatorAction.objects.latest("id")


def test_a_policy_is_changed_and_the_audit_keeps_both(browser):
    policy = RecoveryPolicy.objects.create(name="ours", cause="imported", failure_reason=8, max_recoveries=1)
    form = browser.get(address(RecoveryPolicy, "change", policy.pk)).context["adminform"].form

    values = {name: "" if value is None else value for name, value in form.initial.items()}
    response = browser.post(
        address(RecoveryPolicy, "change", policy.pk), {**values, "max_recoveries": 4, "cooldown_seconds": 90}
    )

    assert response.status_code == 302
    policy.refresh_from_db()
    assert (policy.max_recoveries, policy.cooldown_seconds) == (4, 90)
    action = last_action()
    assert (action.actor, action.action) == ("lea", "policy_changed")
    assert (action.before["max_recoveries"], action.after["max_recoveries"]) == (1, 4)


def test_a_policy_page_says_its_units_and_its_choices(browser):
    content = browser.get(address(RecoveryPolicy, "add")).content.decode()

    assert "Cooldown (seconds)" in content
    assert "doubled with each further one" in content
    assert '<option value="worker_lost">worker lost</option>' in content
    assert '<option value="8">throttled</option>' in content


def test_two_policies_for_one_thing_are_an_error_of_the_form(browser):
    policy = RecoveryPolicy.objects.get(cause="imported", failure_reason=None)
    data = {"name": "theirs", "cause": "imported", "max_recoveries": 1, "cooldown_seconds": 1, "then": "hold"}

    response = browser.post(address(RecoveryPolicy, "add"), data)

    assert response.status_code == 200
    assert response.context["adminform"].form.errors
    assert "already exists" in response.content.decode()
    assert RecoveryPolicy.objects.filter(cause="imported").get() == policy


def test_a_pause_is_the_one_who_paused_and_is_audited_from_begin_to_end(browser):
    data = {"source": "wh_inbox", "kind": "type", "value": "shop.PlaceOrder", "reason": "the bank is down"}
    data |= {"paused_by": "somebody else"}
    assert browser.post(address(SourcePause, "add"), data).status_code == 302

    pause = SourcePause.objects.get()
    assert (pause.paused_by, pause.value) == ("lea", "shop.PlaceOrder")
    assert (last_action().action, last_action().after["reason"]) == ("pause", "the bank is down")

    assert browser.post(address(SourcePause, "delete", pause.pk), {"post": "yes"}).status_code == 302
    assert not SourcePause.objects.exists()
    assert (last_action().action, last_action().before["paused_by"]) == ("resume", "lea")


@pytest.mark.parametrize(("kind", "value"), [("source", "shop.PlaceOrder"), ("type", ""), ("type", " ")])
def test_a_pause_whose_value_does_not_fit_is_an_error_of_the_form(browser, kind, value):
    response = browser.post(address(SourcePause, "add"), {"source": "wh_inbox", "kind": kind, "value": value})

    assert response.status_code == 200
    assert "value" in response.context["adminform"].form.errors
    assert not OperatorAction.objects.exists()


def test_a_pause_is_changed_in_its_end_and_reason_alone(browser):
    pause = SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="olga")
    data = {"source": "wh_outbox", "reason": "longer", "until_0": "2999-01-01", "until_1": "12:00:00"}
    assert browser.post(address(SourcePause, "change", pause.pk), data).status_code == 302

    pause.refresh_from_db()
    assert (pause.source, pause.reason, pause.until.year) == ("wh_inbox", "longer", 2999)
    assert (last_action().action, last_action().before["reason"]) == ("change_pause", "")
    past = {**data, "until_0": "2001-01-01"}
    refused = browser.post(address(SourcePause, "change", pause.pk), past)
    assert "until" in refused.context["adminform"].form.errors


def test_a_pause_for_the_second_time_is_an_error_of_the_form(browser):
    SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="olga")

    response = browser.post(address(SourcePause, "add"), {"source": "wh_inbox", "kind": "source", "value": ""})

    assert response.status_code == 200
    assert response.context["adminform"].form.errors


def test_pauses_deleted_together_are_audited_one_by_one(browser):
    pauses = [SourcePause.objects.create(source=s, kind="source", paused_by="x") for s in ("wh_inbox", "wh_outbox")]

    browser.post(
        address(SourcePause, "changelist"),
        {"action": "delete_selected", "_selected_action": [pause.pk for pause in pauses], "post": "yes"},
    )

    assert not SourcePause.objects.exists()
    assert OperatorAction.objects.filter(action="resume").count() == 2


def test_a_hold_is_placed_and_lifted_by_people_with_a_name(browser):
    letter = a_letter()
    data = {"dead_letter_id": letter.pk, "reason": "the auditors", "placed_by": "somebody else"}
    assert browser.post(address(LegalHold, "add"), data).status_code == 302

    hold = LegalHold.objects.get()
    assert (hold.placed_by, hold.lifted_at) == ("lea", None)
    assert (last_action().action, last_action().dead_letter_id) == ("legal_hold_added", letter.pk)

    assert browser.post(address(LegalHold, "change", hold.pk), {"reason": "done", "lift": "on"}).status_code == 302
    hold.refresh_from_db()
    assert hold.lifted_by == "lea"
    assert hold.lifted_at is not None
    assert last_action().action == "legal_hold_changed"
    assert last_action().after["lifted_by"] == "lea"
    assert browser.post(address(LegalHold, "change", hold.pk), {"reason": "again"}).status_code == 403


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"subject_type": "order"},
        {"subject_id": "42"},
        {"subject_type": "order", "subject_id": "42", "group_id": "0" * 32},
    ],
    ids=["nothing", "a type alone", "an id alone", "two things"],
)
def test_a_hold_keeps_one_thing(browser, kept):
    response = browser.post(address(LegalHold, "add"), {**kept, "reason": "the auditors"})

    assert response.status_code == 200
    assert "one letter, or one group, or one subject" in response.content.decode()
    assert "onstraint" not in response.content.decode()
    assert not LegalHold.objects.exists()


def test_a_change_is_not_kept_without_its_audit(browser, monkeypatch):
    from deadletters.admin import auditing

    def broken(**_):
        raise RuntimeError("no audit")

    monkeypatch.setattr(auditing.audit, "record", broken)
    with pytest.raises(RuntimeError, match="no audit"):
        browser.post(address(SourcePause, "add"), {"source": "wh_inbox", "kind": "source", "value": ""})

    assert not SourcePause.objects.exists()


def test_what_is_edited_in_a_beat_row_lasts_over_migrate(admin_client):
    from django_celery_beat.models import IntervalSchedule, PeriodicTask

    call_command("migrate", verbosity=0)
    task = PeriodicTask.objects.filter(interval__isnull=False).earliest("id")
    slower = IntervalSchedule.objects.create(every=77, period="seconds")
    page = reverse("admin:django_celery_beat_periodictask_change", args=[task.pk])
    form = admin_client.get(page).context["adminform"].form
    values = {name: "" if value is None else value for name, value in form.initial.items()}
    for name in ("start_time", "expires", "last_run_at"):
        values.pop(name, None)

    response = admin_client.post(page, {**values, "interval": slower.pk, "enabled": ""})
    call_command("migrate", verbosity=0)

    assert response.status_code == 302
    task.refresh_from_db()
    assert (task.interval, task.enabled) == (slower, False)
    assert PeriodicTask.objects.filter(name=task.name).count() == 1


@pytest.mark.parametrize(
    "model", ["periodictask", "intervalschedule", "crontabschedule", "clockedschedule", "solarschedule"]
)
def test_the_pages_of_the_schedule_open_without_inline_script(admin_client, model):
    for page in ("changelist", "add"):
        response = admin_client.get(reverse(f"admin:django_celery_beat_{model}_{page}"))

        assert response.status_code == 200
        content = response.content.decode()
        scripts = content.split("<script")[1:]
        assert all("src=" in script.split(">")[0] or 'type="application/json"' in script for script in scripts)
        assert "<style" not in content


def test_a_policy_that_somebody_changed_meanwhile_is_not_written_over(browser):
    policy = RecoveryPolicy.objects.create(name="ours", cause="imported", failure_reason=8, max_recoveries=1)
    page = address(RecoveryPolicy, "change", policy.pk)
    form = browser.get(page).context["adminform"].form
    values = {
        name: "" if (value := form.get_initial_for_field(form.fields[name], name)) is None else value
        for name in form.fields
    }
    browser.post(page, {**values, "max_recoveries": 4})

    answer = browser.post(page, {**values, "cooldown_seconds": 77})

    assert answer.status_code == 200
    assert "Somebody has changed it" in answer.content.decode()
    policy.refresh_from_db()
    assert (policy.max_recoveries, policy.cooldown_seconds) == (4, 3600)
