"""What was done stays in sight, numbers follow what is chosen, and a phone shows all of it: in a real browser."""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from deadletters.models import RecoveryStatus
from tests.browser.conftest import sign_in
from tests.browser.test_looks import PHONE
from tests.factories import a_letter, a_run, a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def administrator():
    return a_user("root", is_superuser=True, is_staff=True)


@pytest.mark.parametrize("script", [True, False])
def test_rows_that_were_held_stay_on_the_list_of_open_ones_until_it_is_loaded_anew(open_page, script):
    letters = [a_letter(message_type=f"shop.M{n}") for n in range(3)]
    page = open_page(java_script_enabled=script)
    sign_in(page, "root")

    page.goto("/letters/?status=open")
    for letter in letters[:2]:
        page.locator(f"input.pick[value='{letter.pk}']").check()
    page.locator("form.bulk button[value=hold]").click()
    page.get_by_role("button", name="Hold 2 letters").click()

    expect(page.locator("tr[data-row]")).to_have_count(3)
    expect(page.get_by_text("Held by you just now.")).to_have_count(2)
    expect(page.locator(f"#row-{letters[0].pk} .chip.state-held")).to_be_visible()
    page.get_by_role("link", name="Load it anew").click()
    expect(page.locator("tr[data-row]")).to_have_count(1)


def test_the_button_of_a_plan_follows_whether_held_letters_go_too(open_page):
    run = a_run([a_letter(), a_letter(status=RecoveryStatus.HELD, operator_disposition=2)])
    page = open_page()
    sign_in(page, "root")

    page.goto(reverse("deadletters:run", args=[run.pk]))
    expect(page.get_by_role("button", name="Recover 1 of 2 letters, 1 first")).to_be_visible()
    page.get_by_label("Letters that a person holds, too").check()
    expect(page.get_by_role("button", name="Recover 2 letters")).to_be_visible()


def test_the_button_of_a_long_plan_is_renewed_and_keeps_what_was_typed(open_page, monkeypatch):
    monkeypatch.setattr("deadletters.views.runs.INLINE", 1)
    run = a_run([a_letter(), a_letter(), a_letter(status=RecoveryStatus.HELD, operator_disposition=2)])
    page = open_page()
    sign_in(page, "root")

    page.route("**/preview", lambda route: (page.get_by_label("First, as a canary").fill("1"), route.continue_()))
    page.goto(reverse("deadletters:run", args=[run.pk]))
    expect(page.get_by_role("button", name="Recover 2 of 3 letters, 1 first")).to_be_visible()


def test_a_phone_leads_to_the_administration_and_shows_every_view_and_little_of_a_long_name(open_page):
    letter = a_letter(message_type="shop." + "LongName" * 120)
    page = open_page(viewport=PHONE)
    sign_in(page, "root")

    page.goto("/letters/")
    tabs = page.get_by_role("navigation", name="Views of the list").get_by_role("link")
    for n in range(tabs.count()):
        box = tabs.nth(n).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    expect(tabs.last).to_have_text("Mine")
    page.locator(".tools summary").click()
    expect(page.locator(".tools").get_by_role("link", name="Administration")).to_be_visible()

    page.goto(reverse("deadletters:letter", args=[letter.pk]))
    assert page.locator("h1").bounding_box()["height"] < 130
    page.locator("details.whole summary").click()
    expect(page.locator("details.whole p")).to_contain_text("LongName" * 60)
