"""What a person may paste into a form and PostgreSQL cannot store: the character NUL."""

import pytest
from django.urls import reverse

from deadletters import counting
from deadletters.models import FailureGroup, OperatorAction, RecoveryRun, RunState
from tests.factories import NOON, a_letter, a_run

pytestmark = pytest.mark.django_db

TYPED = "back\x00up"


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch):
    monkeypatch.setattr("queues.wakeups.send", lambda _: None)


def reason_of(action):
    return OperatorAction.objects.get(action=action).reason


def told(reason):
    """Say whether a reason was kept, in characters that can be stored."""
    return reason.startswith("back") and reason.endswith("up") and "\x00" not in reason


def test_a_run_is_prepared_for_a_reason_with_a_nul_in_it(page):
    letter = a_letter()

    response = page.post("/runs/prepare", {"scope": "picked", "letter": [str(letter.pk)], "reason": TYPED})
    assert response.status_code == 302
    assert told(RecoveryRun.objects.get().reason)
    assert told(reason_of("run_prepare"))
    assert page.get(response.headers["Location"]).status_code == 200


def test_a_run_is_started_for_a_reason_with_a_nul_in_it(page):
    run = a_run([a_letter()])

    response = page.post(reverse("deadletters:start_run", args=[run.pk]), {"reason": TYPED})
    assert response.status_code == 302
    assert told(reason_of("run_start"))


@pytest.mark.parametrize(
    ("action", "state"), [("pause", RunState.RUNNING), ("resume", RunState.PAUSED), ("stop", RunState.RUNNING)]
)
def test_a_run_is_changed_for_a_reason_with_a_nul_in_it(page, action, state):
    run = a_run([a_letter()], state=state, started_at=NOON)

    response = page.post(reverse("deadletters:change_run", args=[run.pk]), {"action": action, "reason": TYPED})
    assert response.status_code == 302
    assert told(reason_of(f"run_{action}"))


def test_a_group_is_triaged_with_a_nul_in_reason_and_ticket(page):
    a_letter()
    counting.fold()
    group = FailureGroup.objects.get()

    response = page.post(
        reverse("deadletters:triage_group", args=[group.pk]),
        {"ticket": TYPED, "owner": TYPED, "reason": TYPED, "row_version": str(group.row_version)},
    )
    assert response.status_code == 302
    group.refresh_from_db()
    assert told(group.ticket)
    assert told(group.owner)
    assert [told(action.reason) for action in OperatorAction.objects.filter(group_id=group.pk)] == [True]
