"""The list in a real browser: searching, picking, acting, and what outlives a swap."""

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from deadletters.models import DeadLetter, RecoveryRun, RecoveryStatus, SavedView
from tests.browser.conftest import sign_in
from tests.factories import NOON, a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]

SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
PHONE = {"width": 390, "height": 844}


def held():
    return DeadLetter.objects.filter(recovery_status=RecoveryStatus.HELD)


def search(page, text):
    page.get_by_label("Search", exact=True).fill(text)
    page.get_by_label("Search", exact=True).press("Enter")


@SCRIPT
def test_a_search_is_the_filter_and_its_chips_take_parts_of_it_away(open_page, script):
    a_letter(message_type="order.placed", error="boom", failure_reason=4)
    a_letter(message_type="order.placed", error="hush", failure_reason=4)
    a_letter(message_type="order.paid", error="boom")
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/letters/")

    search(page, "boom state:open type:order.placed")
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.get_by_label("Search", exact=True)).to_have_value("status:open type:order.placed boom")
    assert page.url.endswith("/letters/?status=open&type=order.placed&q=boom")
    page.get_by_role("link", name="No longer filter by: type order.placed").click()
    expect(page.locator("[data-row]")).to_have_count(2)
    expect(page.get_by_label("Search", exact=True)).to_have_value("status:open boom")
    search(page, "stauts:open boom")
    expect(page.locator("#results")).to_contain_text("did you mean “status”?")
    expect(page.get_by_label("Search", exact=True)).to_have_value("stauts:open boom")


def test_a_search_is_finished_with_the_keyboard_alone(open_page):
    a_letter(message_type="order.placed")
    a_letter(message_type="order.placed", status=RecoveryStatus.HELD)
    a_letter(message_type="customer.moved")
    page = open_page()
    sign_in(page, "olga", "/letters/")
    box = page.get_by_role("combobox", name="Search")
    options = page.locator("#suggestions").get_by_role("option")

    page.keyboard.press("/")
    page.keyboard.type("stat")
    expect(options).to_have_count(1)
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(box).to_have_attribute("aria-activedescendant", "suggestion-1")
    page.keyboard.press("Enter")
    expect(box).to_have_value("status:")
    page.keyboard.type("op")
    expect(options.first).to_have_text("status:open")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(box).to_have_value("status:open ")
    page.keyboard.type("type:plac")
    options.get_by_text("type:order.placed").click()
    expect(box).to_be_focused()
    expect(box).to_have_value("status:open type:order.placed ")
    page.keyboard.press("Escape")
    expect(page.locator("#suggestions")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(box).to_be_focused()
    assert page.url.endswith("/letters/?status=open&type=order.placed")


def test_picks_outlive_newer_letters_and_what_is_not_shown_is_no_longer_picked(open_page):
    letters = [a_letter(dead_lettered_at=NOON + timedelta(minutes=n)) for n in range(25)]
    page = open_page()
    sign_in(page, "olga", "/letters/?status=open&size=25")
    boxes = page.locator("input.pick")
    for n in (0, 1, 24):
        boxes.nth(n).check()
    DeadLetter.objects.filter(pk=letters[-1].pk).update(recovery_status=RecoveryStatus.HELD, row_version=2)
    for n in range(2):
        a_letter(dead_lettered_at=NOON + timedelta(hours=n + 1))
    page.get_by_label("Search", exact=True).fill("half a thou")

    page.locator("#newer a").click()
    expect(page.locator("input.pick:checked")).to_have_count(1)
    assert page.locator("input.pick:checked").get_attribute("value") == str(letters[-2].pk)
    expect(page.locator("#toasts")).to_contain_text("no longer picked: 2")
    expect(page.get_by_label("Search", exact=True)).to_have_value("half a thou")
    page.get_by_role("button", name="Hold 1…").click()
    page.get_by_role("button", name="Hold 1 letter").click()
    expect(page.locator(".messages")).to_contain_text("Held 1 of 1 letters.")
    assert set(held().values_list("pk", flat=True)) == {letters[-1].pk, letters[-2].pk}


def test_all_that_match_are_taken_from_every_page_and_nothing_else(open_page):
    for n in range(30):
        a_letter(message_type="a", dead_lettered_at=NOON + timedelta(minutes=n))
    a_letter(message_type="b")
    page = open_page()
    sign_in(page, "olga", "/letters/?type=a&size=25")

    expect(page.locator(".bulk")).to_be_hidden()
    page.get_by_label("Pick all on this page").check()
    expect(page.locator(".bulk-count")).to_contain_text("25 picked")
    page.get_by_role("button", name="Take all 30 that match").click()
    expect(page.get_by_role("button", name="Only those on this page")).to_be_focused()
    # What stands in the form is not applied: the taken are those of the list that is shown.
    page.get_by_label("Search", exact=True).fill("type:b")
    page.get_by_role("button", name="Give up 30…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Give up 30 letters")
    expect(page.locator("main")).to_contain_text("Dead letters type a")
    page.get_by_role("button", name="Give up 30 letters").click()
    expect(page.locator(".messages")).to_contain_text("Given up 30 of 30 letters.")
    closed = DeadLetter.objects.filter(recovery_status=RecoveryStatus.PERMANENTLY_FAILED)
    assert set(closed.values_list("message_type", flat=True)) == {"a"}


def test_one_pick_taken_back_takes_all_that_match_back(open_page):
    for n in range(30):
        a_letter(dead_lettered_at=NOON + timedelta(minutes=n))
    page = open_page()
    sign_in(page, "olga", "/letters/?status=open&size=25")

    page.get_by_label("Pick all on this page").check()
    page.get_by_role("button", name="Take all 30 that match").click()
    page.locator("input.pick").first.uncheck()
    page.get_by_role("button", name="Recover 24…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("24 picked letters")
    assert RecoveryRun.objects.get().frozen_count == 24


def test_many_are_held_without_script(open_page):
    for _ in range(3):
        a_letter()
    page = open_page(java_script_enabled=False)
    sign_in(page, "olga", "/letters/?status=open")

    page.locator("input.pick").nth(1).check()
    page.get_by_role("button", name="Hold the picked…").click()
    page.get_by_role("button", name="Hold 1 letter").click()
    expect(page.locator(".messages")).to_contain_text("Held 1 of 1 letters.")
    page.get_by_label("that match").check()
    page.get_by_role("button", name="Hold the picked…").click()
    page.get_by_role("button", name="Hold 2 letters").click()
    assert held().count() == 3


@SCRIPT
def test_a_row_stays_where_it_is_and_shows_its_new_state(open_page, script):
    for n in range(3):
        a_letter(message_type=f"the.Row{n}", dead_lettered_at=NOON + timedelta(minutes=n))
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/letters/?q=no+such")
    row = page.locator("[data-row]").nth(1)

    row.get_by_role("button", name="Recover the.Row1").click()
    expect(row).to_contain_text("Recovering")
    expect(row).to_contain_text("the.Row1")
    expect(page.locator("main")).to_contain_text("Sent back to its queue.")
    other = page.locator("[data-row]").nth(2)
    other.get_by_label("More for the.Row0").click()
    other.get_by_role("button", name="Hold").click()
    expect(other).to_contain_text("Held")
    expect(other).to_contain_text("by a person")
    DeadLetter.objects.filter(message_type="the.Row1").update(
        recovery_status=RecoveryStatus.RECOVERED, recovered_at=NOON, row_version=9
    )
    if not script:
        page.reload()
    expect(row).to_contain_text("Recovered")
    expect(page.locator("[data-row]")).to_have_count(3)
    assert page.url.endswith("/letters/?q=no+such")


def test_a_row_is_picked_on_a_phone_and_by_keyboard(open_page):
    for n in range(2):
        a_letter(message_type=f"the.Row{n}")
    page = open_page(viewport=PHONE)
    sign_in(page, "olga", "/letters/")

    page.locator("#main").focus()
    for key in "jjx":
        page.keyboard.press(key)
    expect(page.locator(".bulk-count")).to_contain_text("1 picked")
    page.get_by_label("whole page").check()
    expect(page.get_by_role("button", name="Hold 2…")).to_be_in_viewport()
    page.get_by_role("button", name="none").click()
    expect(page.locator(".bulk")).to_be_hidden()


def test_the_keys_are_for_what_is_picked_not_for_all_that_match(open_page):
    for _ in range(3):
        a_letter()
    page = open_page()
    sign_in(page, "olga", "/letters/?status=open")

    page.locator("#main").focus()
    for key in "jxr":
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Recover 1…")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Recover 1 letter")


@SCRIPT
def test_a_view_is_saved_opened_renamed_and_removed(open_page, script):
    a_letter(error="boom")
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/letters/?q=boom")

    page.get_by_text("Save this view").click()
    page.get_by_label("Name of the view").fill("Night shift")
    page.get_by_role("button", name="Save the view").click()
    page.get_by_role("link", name="All", exact=True).click()
    page.get_by_role("link", name="Night shift").click()
    assert page.url.endswith("/letters/?q=boom")
    page.get_by_text("Change this view").click()
    page.get_by_label("Name of the view").fill("Day shift")
    page.get_by_role("button", name="Save the view").click()
    expect(page.get_by_role("link", name="Day shift")).to_have_attribute("aria-current", "page")
    page.get_by_text("Change this view").click()
    page.get_by_role("button", name="Remove the view").click()
    expect(page.locator(".messages")).to_contain_text("Removed the view “Day shift”.")
    assert not SavedView.objects.exists()
