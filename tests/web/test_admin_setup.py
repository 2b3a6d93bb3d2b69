"""Policies, pauses, holds and beat rows: set by those who may, each change an operator action."""

import pytest
from django.core.management import call_command
from django.urls import reverse

from deadletters.models import LegalHold, OperatorAction, RecoveryPass, RecoveryPolicy
from deadletters.recovery import passes
from queues.models import SourcePause
from tests.factories import NOON, a_letter, a_user
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


def posted(browser, policy, **values):
    form = browser.get(address(RecoveryPolicy, "change", policy.pk)).context["adminform"].form
    initial = {name: form.get_initial_for_field(form.fields[name], name) for name in form.fields}
    return {name: "" if value is None else value for name, value in initial.items() if value is not False} | values


def spent_policy():
    return RecoveryPolicy.objects.get(cause="budget_spent", failure_reason=None)


def test_a_simulation_says_what_would_happen_and_saves_nothing(browser):
    letters = [a_letter(recovery_attempts=n) for n in (0, 0, 1)]
    policy = spent_policy()

    answer = browser.post(
        address(RecoveryPolicy, "change", policy.pk),
        posted(browser, policy, max_recoveries=1, cooldown_seconds=60, then="give_up", _simulate="Simulate"),
    )

    content = answer.content.decode()
    assert answer.status_code == 200
    assert "With this change 2 would become due now, 1 would be given up." in content
    assert str(letters[2].pk) in content
    assert 'value="60"' in content
    assert "Please correct" not in content
    policy.refresh_from_db()
    assert (policy.cooldown_seconds, policy.then) == (3600, "hold")
    assert not OperatorAction.objects.exists()
    assert not RecoveryPass.objects.exists()


def test_a_simulation_of_what_may_not_be_saved_says_what_is_wrong(browser):
    policy = spent_policy()

    answer = browser.post(
        address(RecoveryPolicy, "change", policy.pk), posted(browser, policy, max_recoveries=-1, _simulate="Simulate")
    )

    assert answer.context["adminform"].form.errors
    assert "With this change" not in answer.content.decode()


def test_saving_a_policy_applies_it_to_present_letters_and_the_audit_keeps_the_counts(browser):
    spent, early = a_letter(recovery_attempts=1), a_letter()
    policy = spent_policy()

    browser.post(address(RecoveryPolicy, "change", policy.pk), posted(browser, policy, then="give_up"))

    action = last_action()
    assert (action.before["then"], action.after["then"]) == ("hold", "give_up")
    assert action.after["letters"] == {"counts": {"due": 1, "given_up": 1}, "complete": True}
    passes.step(seconds=60)
    spent.refresh_from_db()
    early.refresh_from_db()
    assert (spent.recovery_status, early.recovery_status) == (4, 0)
    assert early.next_recovery_at is not None


def test_another_name_alone_touches_no_letter(browser):
    a_letter()
    policy = spent_policy()

    browser.post(address(RecoveryPolicy, "change", policy.pk), posted(browser, policy, name="other"))

    assert last_action().after["letters"] == {"counts": {}, "complete": True}
    assert not RecoveryPass.objects.exists()


def test_deleting_a_policy_says_before_what_it_does_and_does_it(browser):
    letter = a_letter(next_recovery_at=NOON)
    policy = spent_policy()

    asked = browser.get(address(RecoveryPolicy, "delete", policy.pk)).content.decode()
    browser.post(address(RecoveryPolicy, "delete", policy.pk), {"post": "yes"})

    assert "With this change 1 would no longer be automatic." in asked
    assert last_action().after["letters"]["counts"] == {"left": 1}
    passes.step(seconds=60)
    letter.refresh_from_db()
    assert letter.next_recovery_at is None


def test_adding_a_policy_is_simulated_too(browser):
    a_letter(failure_reason=8)
    a_letter(failure_reason=99)
    RecoveryPolicy.objects.filter(failure_reason=8).delete()
    data = {"name": "ours", "cause": "budget_spent", "failure_reason": 8, "max_recoveries": 0, "cooldown_seconds": 0}

    answer = browser.post(
        address(RecoveryPolicy, "add"), {**data, "is_automatic": "on", "then": "hold", "_simulate": "Simulate"}
    )

    assert "With this change 1 would be held." in answer.content.decode()
    assert not RecoveryPolicy.objects.filter(failure_reason=8).exists()


def test_the_pages_of_a_policy_carry_no_inline_script_or_style(browser):
    policy = spent_policy()
    pages = [
        browser.get(address(RecoveryPolicy, "delete", policy.pk)),
        browser.post(address(RecoveryPolicy, "change", policy.pk), posted(browser, policy, _simulate="Simulate")),
    ]

    for page in pages:
        content = page.content.decode()
        assert "style=" not in content
        assert "<style" not in content
        assert all("src=" in script.split(">")[0] for script in content.split("<script")[1:])
