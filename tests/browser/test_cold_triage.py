"""The demo shop's outage, triaged by somebody who was asleep: found, owned, written down, brought back, verified.

Orders come in and are drained by processes of the shop, whose clock says whether the warehouse is away.
"""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from deadletters import counting
from deadletters.demo import weather
from deadletters.models import (
    DeadLetter,
    FailureGroup,
    Note,
    OperatorAction,
    RecoveryItem,
    RecoveryRun,
    RecoveryStatus,
    RunState,
)
from tests.browser.conftest import sign_in
from tests.browser.test_axe import look
from tests.factories import PASSWORD
from tests.worker.conftest import Shop, forge, shop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]
__all__ = ["forge", "shop"]

WAREHOUSE = "warehouse north"
ORDERS, SEED = "60", "3"
FAULT = "WarehouseUnreachable"
CYCLE_SECONDS = weather.OUTAGE_EVERY_MINUTES * 60


def clock(is_away: bool) -> str:
    """Return how many seconds a process's clock must be ahead, so that the warehouse is away there, or is not."""
    minute = weather.OUTAGES[WAREHOUSE] if is_away else weather.OUTAGES[WAREHOUSE] + 3
    return str((minute * 60 + 1 - time.time()) % CYCLE_SECONDS)


def drain(shop: Shop, *, is_away: bool) -> None:
    """Let workers handle what is due; a handler of the shop kills the process that runs it, and another goes on."""
    shop.drain_to_the_end(TEST_CLOCK_AHEAD_SECONDS=clock(is_away))


def tick(shop: Shop) -> None:
    assert shop.run("dead_letters", "tick", TEST_CLOCK_AHEAD_SECONDS=clock(False)).wait() == 0, shop.log()


@pytest.fixture
def outage(shop: Shop) -> FailureGroup:
    """Orders of a night in which the warehouse is away."""
    ordered = shop.run("demo_shop", "--orders", ORDERS, "--seed", SEED, "--rate", "100000")
    assert ordered.wait() == 0, shop.log()
    drain(shop, is_away=True)
    counting.fold()
    return FailureGroup.objects.get(title__contains=FAULT)


def bring_back(shop: Shop) -> None:
    """Step the run and drain until it has ended; the outage is over."""
    for _ in range(30):
        tick(shop)
        drain(shop, is_away=False)
        if RecoveryRun.objects.get().state in (RunState.FINISHED, RunState.STOPPED):
            return
    raise AssertionError(f"the run does not end: {shop.log()}")


def assert_is_right(page: Page, step: str) -> None:
    wrong = look(page, step)
    assert not wrong, "\n".join(wrong)


def assert_is_verified(page: Page, dead: int) -> None:
    """The letters of the outage were handled, each by its handler; the audit says who did what."""
    expect(page.locator("#run")).to_contain_text(f"Finished: {dead} of {dead} recovered")
    expect(page.locator("#live-note")).to_have_text("")
    sent = RecoveryItem.objects.values_list("dead_letter_id", flat=True)
    letters = DeadLetter.objects.filter(dead_letter_id__in=sent)
    assert letters.count() == dead
    assert set(letters.values_list("recovery_status", flat=True)) == {RecoveryStatus.RECOVERED}
    assert Note.objects.get().text == "the warehouse is up again, says Nils"
    done = OperatorAction.objects.filter(actor="olga").order_by("id").values_list("action", flat=True)
    assert list(done) == ["triage", "note", "run_prepare", "run_start"]


def test_an_outage_is_triaged_from_cold_by_mouse(open_page, shop, outage):
    dead = DeadLetter.objects.filter(error_line__contains=FAULT).count()
    page = open_page()

    page.goto("/")
    assert_is_right(page, "sign in")
    sign_in(page, "olga", "/")
    fault = page.get_by_role("link", name=FAULT).first
    expect(fault).to_be_visible()
    assert_is_right(page, "the overview")
    fault.click()

    expect(page.get_by_role("heading", level=1)).to_contain_text(FAULT)
    assert_is_right(page, "the group")
    page.get_by_role("button", name="Assign to me").first.click()
    expect(page.locator("#group-facts")).to_contain_text("olga")
    page.get_by_label("What should the next person know?").fill("the warehouse is up again, says Nils")
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator(".notes")).to_contain_text("says Nils")
    assert_is_right(page, "the group with a note")

    page.get_by_role("button", name="Recover the group").click()
    expect(page.locator("#preview")).to_contain_text("warehouse")
    assert_is_right(page, "the plan")
    page.get_by_label("First, as a canary").fill("3")
    page.get_by_label("Reason, for the record").fill("the outage is over")
    page.get_by_role("button", name=f"Recover {dead} letters, 3 first").click()
    expect(page.locator("#run")).to_contain_text(f"{dead} to send")
    assert_is_right(page, "the run")
    bring_back(shop)
    assert_is_verified(page, dead)
    assert_is_right(page, "the end")

    page.get_by_role("link", name=FAULT).first.click()
    expect(page.locator("main")).to_contain_text("What worked last time")
    expect(page.locator("main")).to_contain_text(f"of {dead} letters handled")


def tab_to(page: Page, reached: Callable[[], bool]) -> None:
    """Press the Tab key until the focus is where it should be."""
    for _ in range(120):
        if reached():
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key never gets there, but to {page.evaluate('document.activeElement.outerHTML')}")


def focused(page: Page, selector: str) -> Callable[[], bool]:
    return lambda: page.evaluate("selector => document.activeElement.matches(selector)", selector)


def test_an_outage_is_triaged_from_cold_by_the_keyboard_alone(open_page, shop, outage):
    dead = DeadLetter.objects.filter(error_line__contains=FAULT).count()
    page = open_page()
    keys = page.keyboard

    page.goto("/")
    tab_to(page, focused(page, "[name=username]"))
    keys.type("olga")
    keys.press("Tab")
    keys.type(PASSWORD)
    keys.press("Enter")
    page.wait_for_url(lambda url: "/accounts/login/" not in url)
    tab_to(page, focused(page, "nav a[href='/groups/']"))
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    keys.press("/")
    keys.type("warehouse")
    keys.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    keys.press("Escape")
    keys.press("j")
    keys.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_contain_text(FAULT)
    keys.press("a")
    expect(page.get_by_role("button", name="Assign to me").first).to_be_focused()
    keys.press("Enter")
    expect(page.locator("#group-facts")).to_contain_text("olga")
    keys.press("n")
    keys.type("the warehouse is up again, says Nils")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.locator(".notes")).to_contain_text("says Nils")
    assert page.evaluate("document.activeElement !== document.body")
    keys.press("r")
    expect(page.get_by_role("button", name="Recover the group")).to_be_focused()
    keys.press("Enter")

    expect(page.locator("#preview")).to_contain_text("warehouse")
    tab_to(page, focused(page, "[name=canary]"))
    keys.press("ControlOrMeta+a")
    keys.type("3")
    keys.press("Escape")
    keys.press("r")
    expect(page.get_by_role("button", name=f"Recover {dead} letters, 3 first")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("#run")).to_contain_text(f"{dead} to send")
    bring_back(shop)
    assert_is_verified(page, dead)
