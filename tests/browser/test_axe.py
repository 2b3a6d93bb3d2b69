"""What a screen reader can make of each page: axe finds nothing, in any colours, on any screen, in any state."""

from itertools import pairwise
from uuid import UUID

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.access_table import TABLE
from tests.addresses import address, parameters
from tests.browser.conftest import sign_in
from tests.browser.test_looks import PHONE, ugly  # noqa: F401
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("lead")]

PAGES = [name for name, entry in TABLE.items() if entry.kind == "page" and "get" in entry.methods]
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
COLOURS = {"light": {"color_scheme": "light"}, "dark": {"color_scheme": "dark"}}
SCREENS = {"wide": {"viewport": {"width": 1280, "height": 900}}, "phone": {"viewport": PHONE}}
ORDER = """[...document.querySelectorAll('h1, h2, h3, h4')].filter(heading => heading.checkVisibility()).map(
    heading => Number(heading.tagName[1])
)"""


def violations(page: Page) -> list[str]:
    """Return what axe finds on a page, one line for each element."""
    found = Axe().run(page, options=RULES).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:160]} ({node['failureSummary']})" for rule in found for node in rule["nodes"]
    ]


def look(page: Page, where: str) -> list[str]:
    """Return what is wrong with a page."""
    headings = page.evaluate(ORDER)
    jumps = [pair for pair in pairwise(headings) if pair[1] > pair[0] + 1]
    wrong = violations(page)
    if headings.count(1) != 1 or headings[0] != 1 or jumps:
        wrong.append(f"headings: {headings}")
    return [f"{where}: {line}" for line in wrong]


def pages() -> list[str]:
    """Return the address of every URL that may be a page."""
    return [address(name) for name in PAGES]


def visit(page: Page, addresses: list[str]) -> list[str]:
    wrong = []
    for here in addresses:
        page.goto(here)
        wrong += look(page, here)
    return wrong


@pytest.mark.parametrize("colours", COLOURS)
@pytest.mark.parametrize("screen", SCREENS)
def test_no_page_with_ugly_data_breaks_a_rule(open_page, ugly, colours, screen):  # noqa: F811
    page = open_page(**COLOURS[colours], **SCREENS[screen])
    sign_in(page, "lea")
    page.emulate_media(reduced_motion="reduce")

    wrong = visit(page, pages())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("colours", COLOURS)
def test_no_page_without_data_breaks_a_rule(open_page, colours):
    page = open_page(**COLOURS[colours])
    sign_in(page, "lea")
    empty = [reverse(f"deadletters:{name}") for name in PAGES if not parameters(name)]

    wrong = visit(page, empty)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("colours", COLOURS)
@pytest.mark.parametrize("screen", SCREENS)
def test_no_page_of_an_error_or_of_an_account_breaks_a_rule(open_page, settings, colours, screen):
    page = open_page(**COLOURS[colours], **SCREENS[screen])
    wrong = visit(page, [reverse("login")])
    page.get_by_label("User name").fill("lea")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    wrong += look(page, "a wrong password")
    sign_in(page, "lea")
    nobody = UUID(int=7)
    wrong += visit(
        page,
        [
            reverse("password_change"),
            "/nowhere",
            f"/letters/{nobody}/",
            f"/groups/{nobody}/",
            f"/runs/{nobody}/",
            "/subject/?type=no&id=no",
            "/letters/?status=nonsense",
            "/groups/?state=nonsense",
            "/runs/?state=nonsense",
            "/queues/inbox/?state=nonsense",
        ],
    )

    assert not wrong, "\n".join(wrong)


def test_no_page_after_something_was_done_on_it_breaks_a_rule(open_page):
    letter = a_letter(error="ValueError: no such order", subjects=[("order", "42")])
    page = open_page()
    sign_in(page, "lea", f"/letters/{letter.pk}/")

    page.locator("#note-text").fill("called the bank")
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator(".notes li")).to_have_count(1)
    wrong = look(page, "a note")
    page.get_by_role("button", name="Recover", exact=True).click()
    expect(page.locator("#state")).to_contain_text("Recovering")
    wrong += look(page, "recovering")
    page.locator("#main").focus()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    wrong += look(page, "the keys")
    page.keyboard.press("Escape")
    page.route("**/notes", lambda route: route.abort())
    page.locator("#note-text").fill("and again")
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator(".failure")).to_be_visible()
    wrong += look(page, "a failure")

    assert not wrong, "\n".join(wrong)
