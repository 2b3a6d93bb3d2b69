"""Triage in the admin goes through the pages' door: same permission, same transition, same audit row."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deadletters.models import DeadLetter, Disposition, FailureGroup, OperatorAction, RecoveryStatus
from tests.factories import a_letter, a_user
from tests.web.admin_rows import FINGERPRINT, a_group
from tests.web.test_admin import address

pytestmark = pytest.mark.django_db

LATER = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
TIME = {"quiet_until_0": "2031-05-06", "quiet_until_1": "07:08:09"}
LETTER_EDITS = [
    ("owner", {"owner": "ann"}, "ann"),
    ("operator_disposition", {"operator_disposition": "2"}, Disposition.HOLD_INDEFINITELY),
    ("quiet_until", TIME, LATER),
    ("quiet_until_generation", {"quiet_until_generation": "build-9"}, "build-9"),
]
GROUP_EDITS = [
    ("owner", {"owner": "ann"}, "ann"),
    ("state", {"state": "resolved"}, "resolved"),
    ("fixed_in_generation", {"fixed_in_generation": "build-9"}, "build-9"),
    ("quiet_until", TIME, LATER),
    ("quiet_until_generation", {"quiet_until_generation": "build-9"}, "build-9"),
    ("quiet_until_count", {"quiet_until_count": "100"}, 100),
    ("ticket", {"ticket": "OPS-7"}, "OPS-7"),
    ("runbook", {"runbook": "https://wiki/run"}, "https://wiki/run"),
]


@pytest.fixture
def browser(signed_in):
    """Somebody on the staff who is in no group but Operators."""
    return signed_in(a_user("olga", "Operators", is_staff=True))


@pytest.fixture
def letter():
    return a_letter(error_fingerprint=FINGERPRINT, error_fingerprint_version=2)


@pytest.fixture
def group(letter):
    return a_group(letter)


def a_form(browser, row, **typed):
    """Return what a browser would post of the row's page, with some fields typed over."""
    response = browser.get(address(type(row), "change", row.pk))
    form = response.context["adminform"].form
    values = {}
    for name in form.fields:
        value = form[name].value()
        if name == "quiet_until":
            values |= {f"{name}_0": value.strftime("%Y-%m-%d"), f"{name}_1": f"{value:%H:%M:%S}"} if value else {}
        else:
            values[name] = "" if value is None else value
    return {**values, **typed}


def save(browser, row, data):
    return browser.post(address(type(row), "change", row.pk), data)


@pytest.mark.parametrize(("column", "typed", "stored"), LETTER_EDITS, ids=[edit[0] for edit in LETTER_EDITS])
def test_each_triage_column_of_a_letter_is_edited_and_audited(browser, letter, column, typed, stored):
    response = save(browser, letter, a_form(browser, letter, **typed, reason="asked to"))

    assert response.status_code == 302
    after = DeadLetter.objects.get()
    assert getattr(after, column) == stored
    assert after.row_version == letter.row_version + 1
    action = OperatorAction.objects.get()
    assert (action.actor, action.action, action.dead_letter_id, action.reason) == (
        "olga", "triage", letter.pk, "asked to",
    )  # fmt: skip
    shown = stored.isoformat() if isinstance(stored, datetime) else stored
    assert action.after == {column: shown}
    assert set(action.before) == {column}


@pytest.mark.parametrize(("column", "typed", "stored"), GROUP_EDITS, ids=[edit[0] for edit in GROUP_EDITS])
def test_each_triage_column_of_a_group_is_edited_and_audited(browser, group, column, typed, stored):
    response = save(browser, group, a_form(browser, group, **typed, reason="asked to"))

    assert response.status_code == 302
    assert getattr(FailureGroup.objects.get(), column) == stored
    action = OperatorAction.objects.get()
    assert (action.actor, action.action, action.group_id, action.reason) == ("olga", "triage", group.pk, "asked to")
    assert action.after[column] == (stored.isoformat() if isinstance(stored, datetime) else stored)
    assert column in action.before


def test_a_disposition_takes_the_recovery_status_with_it(browser, letter):
    save(browser, letter, a_form(browser, letter, operator_disposition="2"))
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.HELD

    save(browser, letter, a_form(browser, letter, operator_disposition="0"))
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING


def test_what_is_cleared_is_null_again(browser, letter):
    save(browser, letter, a_form(browser, letter, owner="ann", **TIME))
    save(browser, letter, a_form(browser, letter, owner="", quiet_until_0="", quiet_until_1=""))

    after = DeadLetter.objects.get()
    assert (after.owner, after.quiet_until) == (None, None)


def test_a_form_that_changes_nothing_writes_nothing(browser, letter, group):
    for row in (letter, group):
        assert save(browser, row, a_form(browser, row, reason="no reason")).status_code == 302

    assert not OperatorAction.objects.exists()
    assert DeadLetter.objects.get().row_version == letter.row_version


@pytest.mark.parametrize("model", [DeadLetter, FailureGroup])
def test_a_stale_form_is_refused_and_shows_how_it_is_now(browser, group, model):
    row = model.objects.get()
    stale = a_form(browser, row, owner="ann")
    save(browser, row, a_form(browser, row, owner="bob"))

    response = browser.post(address(model, "change", row.pk), stale, follow=True)

    assert model.objects.get().owner == "bob"
    assert "somebody changed this meanwhile" in response.content.decode()
    assert 'value="bob"' in response.content.decode()
    assert OperatorAction.objects.count() == 1


def test_what_the_service_refuses_is_said_at_its_field_and_keeps_what_was_typed(browser, signed_in):
    recovered = a_letter(status=RecoveryStatus.RECOVERED)

    response = save(browser, recovered, a_form(browser, recovered, operator_disposition="2", owner="ann"))

    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert "cannot be changed" in errors["operator_disposition"][0]
    assert 'value="ann"' in response.content.decode()
    assert DeadLetter.objects.get().owner is None
    assert not OperatorAction.objects.exists()


def test_a_fix_without_its_build_is_refused_at_the_build(browser, group):
    response = save(browser, group, a_form(browser, group, state="fixed"))

    assert "must name the build" in response.context["adminform"].form.errors["fixed_in_generation"][0]
    assert FailureGroup.objects.get().state == "new"


def test_a_person_is_not_offered_a_state_that_is_found_out(browser, group):
    response = save(browser, group, a_form(browser, group, state="regressed"))

    assert "state" in response.context["adminform"].form.errors


def test_a_state_that_was_found_out_stays_when_something_else_is_changed(browser, group):
    FailureGroup.objects.update(state="regressed")

    assert save(browser, group, a_form(browser, group, owner="ann")).status_code == 302
    assert FailureGroup.objects.get().state == "regressed"


@pytest.mark.parametrize("column", ["message_type", "recovery_status", "attempts_when_dlq", "error_line", "envelope"])
def test_what_was_recorded_cannot_be_posted(browser, letter, column):
    before = DeadLetter.objects.values().get()

    save(browser, letter, a_form(browser, letter, **{column: "3"}))

    assert DeadLetter.objects.values().get() == before
    assert not OperatorAction.objects.exists()


def test_a_form_without_its_version_is_refused(browser, letter):
    data = a_form(browser, letter, owner="ann")
    del data["row_version"]

    assert save(browser, letter, data).status_code == 200
    assert DeadLetter.objects.get().owner is None


def test_saving_writes_a_letter_by_the_service_alone(browser, letter):
    data = a_form(browser, letter, owner="ann")
    with CaptureQueriesContext(connection) as queries:
        save(browser, letter, data)

    updates = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "wh_dead_letters"')]
    assert len(updates) == 1
    assert "message_type" not in updates[0]


def test_a_viewer_sees_no_form(signed_in, letter, group):
    browser = signed_in(a_user("vic", "Viewers", is_staff=True))

    for row in (letter, group):
        content = browser.get(address(type(row), "change", row.pk)).content.decode()
        assert 'name="owner"' not in content
        assert 'name="_save"' not in content
        assert browser.post(address(type(row), "change", row.pk), {"owner": "vic", "row_version": 1}).status_code == 403
    assert not OperatorAction.objects.exists()


def test_a_change_needs_the_token_of_the_page(signed_in, letter):
    browser = signed_in(a_user("olga", "Operators", is_staff=True), csrf=True)

    assert browser.post(address(DeadLetter, "change", letter.pk), {"owner": "ann"}).status_code == 403
