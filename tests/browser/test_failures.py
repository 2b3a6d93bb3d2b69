"""What a page does with an answer that is no part of it: one message says what to do, and nothing typed is lost."""

import time

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, Route, expect

from deadletters.models import DeadLetter, Note, RecoveryStatus
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]

TYPED = "half a thought"
A_PAGE = "<!doctype html><html><body><h1>Sign in to the proxy</h1></body></html>"
ANSWERS = {
    "a page with 200": (200, "text/html", A_PAGE, "The server answered with another page"),
    "a page with 400": (400, "text/html", A_PAGE, "The server did not understand that"),
    "a line with 400": (400, "text/plain", "There is no such decision.", "There is no such decision."),
    "a page with 403": (403, "text/html", A_PAGE, "You may not do this, or the page is out of date"),
    "a page with 404": (404, "text/html", A_PAGE, "It is not there any more"),
    "a page with 409": (409, "text/html", A_PAGE, "It has changed meanwhile"),
    "a page with 413": (413, "text/html", A_PAGE, "That is more than the server takes at once"),
    "a page with 422": (422, "text/html", A_PAGE, "The server did not understand that"),
    "a page with 500": (500, "text/html", A_PAGE, "That did not work; the server has logged why"),
    "a page with 502": (502, "text/html", A_PAGE, "The server is away for the moment"),
    "a page with 504": (504, "text/html", A_PAGE, "The server takes too long"),
}


@pytest.fixture
def page(open_page) -> Page:
    """A letter's page with a note that is half typed."""
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#note-text").fill(TYPED)
    return page


def write(page: Page) -> None:
    page.get_by_role("button", name="Write the note").click()


def assert_is_told_once(page: Page, text: str) -> None:
    """The message stands at the form, and nowhere else; what was typed is there, and so is the page."""
    expect(page.locator("#notes form .failure")).to_contain_text(text)
    expect(page.locator(".failure, .toast")).to_have_count(1)
    expect(page.locator("#note-text")).to_have_value(TYPED)
    expect(page.get_by_role("button", name="Write the note")).to_be_enabled()
    expect(page.locator("main")).to_have_count(1)
    assert "Sign in to the proxy" not in page.content()


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_no_part_of_the_page_is_told_where_it_was_asked_for(page, answer):
    status, kind, body, said = ANSWERS[answer]
    page.route("**/notes", lambda route: route.fulfill(status=status, content_type=kind, body=body))

    write(page)
    assert_is_told_once(page, said)
    assert not Note.objects.exists()

    page.unroute("**/notes")
    write(page)
    expect(page.locator(".notes li .text")).to_have_text(TYPED)
    expect(page.locator(".failure, .toast")).to_have_count(0)
    expect(page.locator("#note-text")).to_have_value("")


def test_a_dropped_connection_is_told_and_whether_it_was_done_is_left_open(page):
    page.route("**/notes", lambda route: route.abort("connectionreset"))

    write(page)
    assert_is_told_once(page, "The server did not answer. Whether it was done is not known")


def test_an_answer_that_takes_too_long_is_told(page):
    held: list[Route] = []
    page.route("**/notes", lambda route: held.append(route))  # playwright marks the function
    page.evaluate("htmx.config.timeout = 300")

    write(page)
    assert_is_told_once(page, "The server takes too long. It may still do it")
    for route in held:
        route.abort()


def test_a_server_that_fails_of_itself_answers_htmx_with_a_line(page, monkeypatch):
    def broken(**_):
        raise RuntimeError("not for the reader")

    monkeypatch.setattr("deadletters.triage.add_note", broken)

    write(page)
    assert_is_told_once(page, "The server failed, and has logged why")
    assert "not for the reader" not in page.content()


def test_a_form_of_another_session_says_so_in_place(page):
    page.evaluate("document.querySelectorAll('[name=csrfmiddlewaretoken]').forEach(field => { field.value = 'x' })")

    write(page)
    assert_is_told_once(page, "This page is out of date. Nothing was changed: reload it and try again.")


def test_more_than_the_server_takes_is_refused_with_413(page, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10

    write(page)
    assert_is_told_once(page, "That is more than the server takes at once")


def test_a_list_that_cannot_be_read_stays_and_says_so(open_page):
    a_letter()
    page = open_page()
    sign_in(page, "olga", "/groups/")
    page.route("**/groups/?*", lambda route: route.abort())

    page.get_by_label("State").select_option("held")
    expect(page.locator(".toast")).to_contain_text("The server did not answer")
    expect(page.locator("#results")).to_have_count(1)
    page.get_by_role("button", name="Close").first.click()
    expect(page.locator(".toast")).to_have_count(0)


def test_a_poll_says_since_when_it_is_stale_and_is_right_again_after_a_restart(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.route("**/live*", lambda route: route.abort("connectionrefused"))

    expect(page.locator("#live-note.stale")).to_contain_text("Not up to date since")
    expect(page.locator(".toast")).to_have_count(0)
    page.unroute("**/live*")
    DeadLetter.objects.update(recovery_status=RecoveryStatus.PENDING, deaths=2, row_version=5)
    expect(page.locator("#state")).to_contain_text("the last recovery failed again")
    expect(page.locator("#live-note")).to_have_text("")


def test_a_poll_without_an_answer_is_given_up_and_says_since_when_it_is_stale(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    assert page.evaluate("htmx.config.pollTimeout") == 10_000
    page.evaluate("htmx.config.pollTimeout = 300")
    held: list[Route] = []
    page.route("**/live*", lambda route: held.append(route))  # playwright marks the function

    expect(page.locator("#live-note.stale")).to_contain_text("Not up to date since")
    expect(page.locator(".toast")).to_have_count(0)
    for route in held:
        route.abort()


def test_a_region_rests_while_somebody_types_in_it_and_says_so(open_page):
    a_letter()
    page = open_page()
    sign_in(page, "olga", "/queues/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.headers.get("hx-request") else None)

    page.locator("#overview button").first.focus()
    expect(page.locator("#live-note")).to_have_text("Updates paused")
    asked.clear()
    page.locator("#main").focus()
    expect(page.locator("#live-note")).to_have_text("")
    until = time.monotonic() + 15
    while not asked and time.monotonic() < until:
        page.wait_for_timeout(100)
    assert asked


def test_no_poll_asks_while_the_tab_is_hidden(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    page.evaluate(hide + " document.dispatchEvent(new Event('visibilitychange')) }", True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/live" in request.url else None)

    page.wait_for_timeout(5000)  # two and a half polls
    assert asked == []
    with page.expect_request("**/live*"):
        page.evaluate(hide + " document.dispatchEvent(new Event('visibilitychange')) }", False)


def test_the_focus_goes_to_what_changed(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")

    page.get_by_role("button", name="Hold", exact=True).press("Enter")
    expect(page.locator("#state")).to_contain_text("Held")
    assert page.evaluate("document.activeElement.closest('#state') !== null")


def test_a_session_that_ended_leads_to_the_sign_in_and_back_with_what_was_typed(page):
    Session.objects.all().delete()

    write(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    sign_in_again = page.url
    assert "next=" in sign_in_again
    page.get_by_label("User name").fill("olga")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#note-text")).to_have_value(TYPED)
