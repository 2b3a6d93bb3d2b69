"""A real Chromium against a real server, with every violation of the policy and every script error noted."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.factories import PASSWORD, a_user

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
WAIT_MS = 15_000
PROVOKED = (
    "Failed to load resource: the server responded with",
    "Failed to load resource: net::ERR_",
    "Response Status Error Code",
    "htmx:sendError",
    "htmx:timeout",
    "htmx:afterRequest",
)

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session", autouse=True)
def _orm_in_the_thread_of_playwright() -> Iterator[None]:
    """Playwright runs an event loop in the test's thread, in which Django would refuse the database."""
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    yield
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium; without one these tests are skipped, but not in CI."""
    if not os.access(CHROMIUM, os.X_OK):
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail("no Chromium, and CI needs one")
        pytest.skip("no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, live_server) -> Iterator[Callable[..., Page]]:
    """Open a page in a fresh browser; after the test nothing may have gone wrong in any of them."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def new_page(**options) -> Page:
        context = chromium.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        page.on("console", lambda message: wrong.append(message.text) if _is_wrong(message) else None)
        return page

    with override_settings(DEBUG=False):
        yield new_page
    for context in contexts:
        context.close()
    assert wrong == []


def _is_wrong(message) -> bool:
    """Say whether a console message is a fault; a status or no answer is what a test provokes and looks at itself."""
    return message.type == "error" and not message.text.startswith(PROVOKED)


@pytest.fixture
def operator(db: None) -> User:
    return a_user("olga", "Operators")


@pytest.fixture
def lead(db: None) -> User:
    return a_user("lea", "Leads")


def sign_in(page: Page, name: str, target: str = "/letters/") -> None:
    """Open a page as somebody who has signed in; how one does is a test of its own."""
    client = Client()
    client.force_login(User.objects.get(username=name))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "domain": "localhost", "path": "/"}])
    page.goto(target)


def ask_to_hold_the_first(page: Page, name: str) -> None:
    """Sign in, pick the first open letter, and come to the question whether to hold it."""
    sign_in(page, name, "/letters/?status=open")
    page.locator("input.pick").first.check()
    page.locator("form.bulk").get_by_role("button", name="Hold").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hold 1 letter")


def fill_in_and_sign_in(page: Page, name: str, target: str = "/letters/") -> None:
    """Go to a page and sign in on the way."""
    page.goto(target)
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/accounts/login/" not in url)
