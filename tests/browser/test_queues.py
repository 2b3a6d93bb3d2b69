"""How an operator stops, looks and lets go, in a real browser."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from deadletters.models import DeadLetter
from queues import handles, send, wakeups
from queues.models import InboxMessage, SourcePause, Stream
from queues.testing import drain
from queues.words.handlers import registry
from queues.words.sources import STOPPED_UNTIL
from tests.browser.conftest import sign_in
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])


@pytest.fixture(autouse=True)
def operator(monkeypatch):
    monkeypatch.setattr(wakeups, "send", lambda wakeup: None)  # no broker listens
    return a_user("olga", "Operators")


@pytest.fixture
def ran():
    """Note the payloads that the handler of the type shop.Pack got."""
    payloads = []
    with registry.scratch():
        handles("shop.Pack")(lambda message: payloads.append(message.payload))
        yield payloads


@SCRIPT
def test_pause_a_source_see_messages_wait_and_resume(open_page, ran, script):
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga")
    page.get_by_role("link", name="Queues").click()

    page.get_by_role("button", name="Pause Inbox").click()
    expect(page.locator("#overview")).to_contain_text("Paused by olga")
    send("shop.Pack", 1)
    drain()
    assert ran == []
    page.get_by_role("link", name="Inbox").first.click()
    expect(page.locator("[data-row]")).to_contain_text("Paused")

    page.get_by_role("link", name="Sources").click()
    page.get_by_role("button", name="Resume Inbox").click()
    expect(page.get_by_role("button", name="Pause Inbox")).to_be_visible()
    drain()
    assert ran == [1]
    assert not SourcePause.objects.exists()


@SCRIPT
def test_pause_a_type_by_the_form_and_correct_what_was_typed(open_page, script):
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/queues/")

    page.get_by_label("What").select_option("inbox_type")
    page.get_by_label("Reason, for the others").fill("the bank is down")
    page.get_by_role("button", name="Pause it").click()
    expect(page.locator("#pause")).to_contain_text("Value must name what is paused.")
    expect(page.get_by_label("Reason, for the others")).to_have_value("the bank is down")
    page.get_by_label("Type, destination or perspective").fill("shop.Pack")
    page.get_by_role("button", name="Pause it").click()
    expect(page.locator("#overview")).to_contain_text("the bank is down")
    expect(page.get_by_label("Type, destination or perspective")).to_have_value("")
    assert SourcePause.objects.get().value == "shop.Pack"
    page.get_by_role("button", name="Resume shop.Pack").click()
    expect(page.locator("#overview")).not_to_contain_text("the bank is down")


@SCRIPT
def test_stop_run_and_dead_letter_a_message(open_page, ran, script):
    message_id = send("shop.Pack", 1).message_id
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/queues/inbox/")
    page.get_by_role("link", name="shop.Pack").click()

    page.get_by_label("Reason").fill("wait for the bank")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#state")).to_contain_text("Stopped")
    expect(page.locator("#timeline")).to_contain_text("wait for the bank")
    drain()
    assert ran == []
    assert InboxMessage.objects.get().scheduled_for == STOPPED_UNTIL
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#state")).to_contain_text("Waiting")

    page.get_by_label("Reason").fill("")
    page.get_by_role("button", name="Dead-letter").click()
    expect(page.locator("#act")).to_contain_text("Reason must say why")
    page.get_by_label("Reason").fill("the wrong tenant")
    page.get_by_role("button", name="Dead-letter").click()
    page.wait_for_url("**/letters/**")
    expect(page.locator(".why")).to_contain_text("the wrong tenant")
    assert DeadLetter.objects.get().source_id == message_id


def test_a_page_notices_that_its_message_was_handled(open_page, ran):
    message_id = send("shop.Pack", 1).message_id
    page = open_page()
    page.clock.install()
    sign_in(page, "olga", f"/queues/inbox/{message_id}/")
    expect(page.locator("#state")).to_contain_text("Waiting")

    drain()
    page.clock.fast_forward(5_000)
    expect(page.locator("#state")).to_contain_text("It is not in the queue any more")
    expect(page.locator("[hx-trigger*=every]")).to_have_count(0)


NOTE_RESTS = """document.addEventListener(
    'htmx:beforeRequest', (event) => { if (event.defaultPrevented) document.title = 'rested' }
)"""


def test_a_list_renews_itself_but_not_while_somebody_is_at_one_of_its_rows(open_page):
    send("shop.Pack", 1)
    page = open_page()
    page.clock.install()
    sign_in(page, "olga", "/queues/inbox/")
    page.evaluate(NOTE_RESTS)
    page.locator("#main").focus()
    page.keyboard.press("j")
    expect(page.locator("tr.current")).to_have_count(1)
    send("shop.Pack", 2)

    page.clock.fast_forward(5_000)
    expect(page).to_have_title("rested")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.evaluate("document.querySelector('tr.current').classList.remove('current'); document.activeElement.blur()")
    page.clock.fast_forward(5_000)
    expect(page.locator("[data-row]")).to_have_count(2)


@SCRIPT
def test_let_a_held_stream_go(open_page, ran, script):
    letter = a_letter(message_type="shop.Pack", stream_id=UUID(int=5))
    Stream.objects.create(queue="wh_inbox", stream_id=UUID(int=5), due_at=STOPPED_UNTIL, held_by=letter.pk)
    send("shop.Pack", 2, stream=UUID(int=5))
    drain()
    assert ran == []
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/queues/streams/")

    expect(page.locator("table")).to_contain_text("shop.Pack")
    page.get_by_role("button", name="Let go").click()
    expect(page.locator("#main")).to_contain_text("The stream goes on.")
    drain()
    assert ran == [2]
