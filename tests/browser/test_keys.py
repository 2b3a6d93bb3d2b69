"""Keys of somebody who types faster than the page comes: each is done, once, to what was meant."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from deadletters import counting
from deadletters.models import Note, OperatorAction
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]


def held_back(page: Page, address: str) -> Callable[[], None]:
    """Keep the answers to an address from the page; return what lets them and all later ones through."""
    waiting: list[Route] | None = []

    def answer(route: Route) -> None:
        if waiting is None:
            route.continue_()
        else:
            waiting.append(route)

    def let_go() -> None:
        nonlocal waiting
        held, waiting = waiting or [], None
        for route in held:
            route.continue_()

    page.route(address, answer)
    return let_go


def open_slowly(page: Page, here: str) -> Callable[[], None]:
    """Open a page whose scripts are on their way; return what lets them arrive."""
    sign_in(page, "olga", "/audit/")
    let_go = held_back(page, "**/js/*keys*.js")
    page.goto(here, wait_until="commit")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return let_go


def test_keys_pressed_before_the_scripts_are_there_are_done_in_their_order(open_page):
    a_letter(message_type="order.paid")
    wanted = a_letter(message_type="order.placed")
    page = open_page()
    let_go = open_slowly(page, "/letters/")

    for key in ("j", "j", "k", "Enter"):
        page.keyboard.press(key)
    let_go()
    page.wait_for_url(f"**/letters/{wanted.pk}/*")


def test_a_note_typed_before_the_scripts_are_there_is_written(open_page):
    letter = a_letter()
    page = open_page()
    let_go = open_slowly(page, f"/letters/{letter.pk}/")

    page.keyboard.press("n")
    page.keyboard.type("a rash hand")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    let_go()
    expect(page.locator(".notes")).to_contain_text("a rash hand")
    assert Note.objects.get().text == "a rash hand"


def test_who_points_at_something_before_the_scripts_are_there_means_that(open_page):
    letter = a_letter()
    page = open_page()
    let_go = open_slowly(page, f"/letters/{letter.pk}/")

    page.keyboard.press("r")
    page.locator("#note-text").click()
    page.keyboard.type("wait")
    let_go()
    page.wait_for_load_state("load")
    expect(page.locator("#note-text")).to_be_focused()
    expect(page.locator("#note-text")).to_have_value("wait")
    assert not OperatorAction.objects.exists()


def test_keys_pressed_while_a_search_is_answered_are_done_to_what_it_finds(open_page):
    a_letter(error="Boom: a")
    a_letter(error="Hush: b")
    counting.fold()
    page = open_page()
    sign_in(page, "olga", "/groups/")
    let_go = held_back(page, "**/groups/?q=Boom*")

    page.keyboard.press("/")
    page.keyboard.type("Boom")
    with page.expect_request("**/groups/?q=Boom*"):
        page.keyboard.press("Enter")
    for key in ("Escape", "j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("[data-row]")).to_have_count(2)
    let_go()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Boom")
