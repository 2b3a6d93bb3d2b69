"""How an operator brings a group's letters back, in a real browser: a canary, its verdict, then the others."""

import pytest
from playwright.sync_api import expect

from deadletters import counting
from deadletters.models import DeadLetter, FailureGroup, RecoveryRun, RecoveryStatus
from deadletters.recovery.stepping import step
from queues.drainer import drain
from queues.words.handlers import handles
from tests.browser.conftest import sign_in
from tests.db.conftest import send_numbers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]


@pytest.fixture
def shop(handlers):
    """A handler that refuses everything until it is mended."""
    state = {"broken": True}

    @handles("test.N", max_attempts=1)
    def handle(message):
        if state["broken"]:
            raise ValueError("no such order")

    return state


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_a_group_is_recovered_canary_first_and_every_letter_is_verified(open_page, shop, script):
    send_numbers(5)
    drain("wh_inbox", seconds=None)
    counting.fold()
    shop["broken"] = False
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", f"/groups/{FailureGroup.objects.get().pk}/")

    page.get_by_role("button", name="Recover the group").click()
    expect(page.locator("#run")).to_contain_text("Waits for its start: 5 to send")
    expect(page.locator("#preview")).to_contain_text("This fault is happening right now")
    page.get_by_label("First, as a canary").fill("two")
    page.get_by_role("button", name="Recover 5 letters").click()
    expect(page.locator("#error-canary")).to_contain_text("must be a whole number")
    expect(page.get_by_label("First, as a canary")).to_have_value("two")
    if script:
        page.get_by_label("First, as a canary").fill("9")
        expect(page.get_by_role("button", name="Recover 5 letters, 5 first")).to_be_visible()
    page.get_by_label("First, as a canary").fill("2")
    page.get_by_label("Reason, for the record").fill("the shop is mended")
    if script:
        expect(page.get_by_role("button", name="Recover 5 letters, 2 first")).to_be_visible()
    page.get_by_role("button", name="Recover 5 letters").click()
    expect(page.locator("#timeline")).to_contain_text("Started it, 5 letters, 2 first")

    step(5)
    reread(page, script)
    expect(page.locator("#run")).to_contain_text("Canary: 0 of 2 answered")
    expect(page.get_by_role("button", name="Stop: 3 letters not sent stay dead")).to_be_visible()
    for _ in range(4):
        drain("wh_inbox", seconds=None)
        step(5)
    reread(page, script)
    expect(page.locator("#run")).to_contain_text("Finished: 5 of 5 recovered")
    expect(page.locator("#run[hx-trigger]")).to_have_count(0)

    assert RecoveryRun.objects.get().reason == "the shop is mended"
    assert set(DeadLetter.objects.values_list("recovery_status", flat=True)) == {RecoveryStatus.RECOVERED}
    page.goto(f"/groups/{FailureGroup.objects.get().pk}/")
    expect(page.locator("main")).to_contain_text("100 % of 5 letters handled")


def reread(page, script):
    """Look again, as a browser without script must; with it the page does so by itself."""
    if not script:
        page.reload()


def test_letters_are_picked_with_the_shift_key_and_counted(open_page, shop):
    send_numbers(4)
    drain("wh_inbox", seconds=None)
    page = open_page()
    sign_in(page, "olga", "/letters/")

    boxes = page.locator("input.pick")
    boxes.nth(0).check()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(page.get_by_role("button", name="Recover 3…")).to_be_visible()
    page.get_by_label("Pick all on this page").check()
    expect(page.locator(".bulk-count")).to_contain_text("4 picked")
    page.locator("#main").focus()
    for key in "jjjjx":
        page.keyboard.press(key)
    page.get_by_role("button", name="Recover 3…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("3 picked letters")
    assert RecoveryRun.objects.get().frozen_count == 3
