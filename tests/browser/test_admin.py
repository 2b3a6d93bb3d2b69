"""The admin in a real browser, by somebody who is on the staff and in no group but Operators."""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from deadletters.models import DeadLetter, FailureGroup, OperatorAction
from tests.factories import PASSWORD, a_user
from tests.web.admin_rows import one_of_each
from tests.web.test_admin import TABLES, address

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rows():
    return one_of_each()


def sign_in(page, name):
    page.goto(reverse("admin:index"))
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#user-tools")).to_be_visible()


def test_an_operator_walks_through_every_list_and_page_and_edits(open_page, rows):
    a_user("olga", "Operators", is_staff=True)
    page = open_page()
    sign_in(page, "olga")

    expect(page.locator("#content-main .model-deadletter")).to_be_visible()
    for model in TABLES:
        page.goto(address(model, "changelist"))
        expect(page.locator("#changelist")).to_be_visible()
        page.goto(address(model, "change", rows[model]))
        expect(page.locator("#content-main form")).to_be_visible()
    _assign(page, DeadLetter, rows)
    _assign(page, FailureGroup, rows)
    assert [action.after["owner"] for action in OperatorAction.objects.filter(reason="by hand")] == ["ann", "ann"]


def _assign(page, model, rows):
    page.goto(address(model, "change", rows[model]))
    page.locator("#id_owner").fill("ann")
    page.locator("#id_reason").fill("by hand")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_be_visible()
    assert model.objects.only("owner").get().owner == "ann"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_superuser_sets_up_policies_and_the_schedule(open_page, rows, width):
    a_user("root", is_staff=True, is_superuser=True)
    page = open_page(viewport={"width": width, "height": 900})
    sign_in(page, "root")

    for name in ("periodictask", "intervalschedule", "crontabschedule", "clockedschedule", "solarschedule"):
        page.goto(reverse(f"admin:django_celery_beat_{name}_changelist"))
        expect(page.locator("#changelist")).to_be_visible()
        page.goto(reverse(f"admin:django_celery_beat_{name}_add"))
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_visible()
    page.goto(reverse("admin:deadletters_recoverypolicy_changelist"))
    page.locator("#result_list th a").first.click()
    page.get_by_label("Cooldown (seconds)").fill("120")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("status")).to_contain_text("What it would do to present letters")
    expect(page.get_by_label("Cooldown (seconds)")).to_have_value("120")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_be_visible()
    assert OperatorAction.objects.filter(action="policy_changed").exists()
