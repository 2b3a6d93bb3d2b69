"""How an operator finds everything about one thing, and acts on all of it, in a real browser."""

import pytest
from playwright.sync_api import expect

from deadletters import counting
from deadletters.models import DeadLetter, RecoveryRun
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]

UGLY = "a/../b?c=d&e#f%2F אבג 🦆 <b>\"'"


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_an_ugly_id_is_found_and_all_about_it_recovered(open_page, script):
    for number in range(3):
        a_letter(subjects=[("order", UGLY), ("line", str(number))])
    a_letter(subjects=[("order", f"{UGLY} 2")])
    counting.fold()
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/subjects/")

    page.get_by_label("Id, or its beginning").fill(UGLY)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-row]")).to_have_count(2)
    page.wait_for_load_state("networkidle")
    page.locator("[data-row] a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"order {UGLY}")
    expect(page.locator("[data-row]")).to_have_count(3)
    expect(page.locator("#timeline li")).to_have_count(3)

    page.get_by_role("button", name="Recover all about it: 3…").click()
    page.wait_for_url("**/runs/*/")
    assert RecoveryRun.objects.get().frozen_count == 3


def test_all_about_it_is_held_after_its_number_was_confirmed(open_page):
    for _ in range(2):
        a_letter(subjects=[("order", "42")])
    other = a_letter(subjects=[("order", "43")])
    counting.fold()
    page = open_page()
    sign_in(page, "olga", "/subject/?type=order&id=42")

    page.get_by_role("button", name="Hold all about it: 2 open…").click()
    page.locator("main form button").last.click()
    expect(page.locator("main")).to_contain_text("2 of 2 letters")
    held = DeadLetter.objects.filter(operator_disposition=2)
    assert held.count() == 2
    assert other.pk not in held.values_list("pk", flat=True)
