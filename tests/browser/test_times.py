"""Times, copying, colours and paper: what a page does for the person who looks at it."""

import pytest
from django.apps import apps
from playwright.sync_api import expect

from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]


def test_a_time_is_in_the_viewers_zone_with_utc_behind_it(open_page):
    letter = a_letter()
    page = open_page(timezone_id="Asia/Tokyo", locale="en-GB")
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    died = page.locator("#facts time").first

    expect(died).to_have_class("ago")
    utc = f"{letter.dead_lettered_at:%Y-%m-%d %H:%M:%S} UTC"
    title = died.get_attribute("title")
    assert title.endswith(f"(Asia/Tokyo)\n{utc}")
    assert f"{(letter.dead_lettered_at.hour + 9) % 24:02}:{letter.dead_lettered_at:%M:%S}" in title
    died.focus()
    expect(died).to_be_focused()
    assert utc in page.evaluate("getComputedStyle(document.activeElement, '::after').content").replace("\\n", "\n")


def test_a_time_is_in_utc_without_script(open_page):
    letter = a_letter()
    page = open_page(java_script_enabled=False, timezone_id="Asia/Tokyo")
    sign_in(page, "olga", f"/letters/{letter.pk}/")

    expect(page.locator("#timeline time.clock").first).to_have_text(f"{letter.dead_lettered_at:%Y-%m-%d %H:%M:%S} UTC")


def test_how_long_ago_goes_on_by_the_servers_clock(open_page):
    letter = a_letter()
    page = open_page()
    page.clock.install()  # a laptop whose clock stands still until it is told to go on
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    before = page.locator("#facts time").first.inner_text()

    page.clock.fast_forward(3 * 86_400_000)
    days = int(before.split()[0].replace(",", "")) + 3
    expect(page.locator("#facts time").first).to_have_text(f"{days:,} d ago")


@pytest.mark.parametrize("is_secure", [True, False], ids=["with a clipboard", "without HTTPS"])
def test_an_id_is_copied_whole(open_page, is_secure):
    letter = a_letter()
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    if not is_secure:
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.evaluate("document.addEventListener('copy', () => { window.taken = String(document.activeElement.value) })")

    page.get_by_role("button", name="Copy the dead letter id").click()
    expect(page.locator(".toast")).to_contain_text("Copied.")
    taken = page.evaluate("navigator.clipboard.readText()") if is_secure else page.evaluate("window.taken")
    assert taken == str(letter.pk)


@pytest.mark.parametrize("address", ["/accounts/login/", "/nowhere"])
def test_the_colours_are_switched_on_every_page(open_page, address):
    page = open_page(color_scheme="light")
    page.goto(address)
    switch = page.locator("[data-theme-switch]")

    for name in ("light", "dark", "system"):
        switch.click()
        expect(switch).to_have_attribute("aria-label", f"Colours: {name}")
    assert page.evaluate("document.documentElement.dataset.theme") == "system"


def test_a_letter_is_printed_whole_and_without_buttons(open_page):
    letter = a_letter(payload='{"order_id": "42"}')
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")

    page.emulate_media(media="print")
    assert page.locator("button:visible, .top:visible, form:visible").count() == 0
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".why")).to_be_visible()


def test_the_help_lists_what_works_on_the_page_and_nothing_else(open_page, operator):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", "/letters/")
    shown = "[...document.querySelectorAll('#keys [data-of]')].filter(e => e.checkVisibility()).map(e => e.dataset.of)"

    page.keyboard.press("?")
    assert page.evaluate(shown) == ["/", "j", "Enter", "x", "a", "r", "n", "h", "Escape", "?"]
    page.keyboard.press("Escape")
    page.goto(f"/letters/{letter.pk}/")
    page.keyboard.press("?")
    assert page.evaluate(shown) == ["a", "r", "n", "h", "Escape", "?"]
    operator.groups.clear()
    operator.groups.add(apps.get_model("auth", "Group").objects.get(name="Viewers"))
    page.reload()
    page.keyboard.press("?")
    assert page.evaluate(shown) == ["Escape", "?"]
