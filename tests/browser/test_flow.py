"""What an operator does at night, in a real browser."""

import json
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import expect

from deadletters.models import DeadLetter, DeadLetterDeath, Note, RecoveryStatus
from queues.models import InboxMessage
from tests.browser.conftest import fill_in_and_sign_in, sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]


def handle(letter):
    """Write what a drainer writes when the handler has handled the message."""
    InboxMessage.objects.filter(message_id=letter.source_id).delete()
    DeadLetterDeath.objects.filter(dead_letter=letter).update(verdict="recovered", verdict_at=timezone.now())
    DeadLetter.objects.filter(pk=letter.pk).update(
        recovery_status=RecoveryStatus.RECOVERED, recovered_at=timezone.now(), row_version=9
    )


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_find_read_note_and_recover_one_letter(open_page, script):
    letter = a_letter(message_type="billing.ChargeCard", error="CardDeclined: no funds", subjects=[("order", "42")])
    a_letter(message_type="crm.SyncContact")
    page = open_page(java_script_enabled=script)

    fill_in_and_sign_in(page, "olga")
    page.get_by_label("Search", exact=True).fill("carddeclined")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator("#results")).to_contain_text("with “carddeclined” in them")
    assert "q=carddeclined" in page.url
    page.get_by_role("link", name="billing.ChargeCard").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("billing.ChargeCard")
    expect(page.locator(".why")).to_contain_text("CardDeclined: no funds")
    page.get_by_label("What should the next person know?").fill("called <b>the</b> bank")
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator(".notes li")).to_contain_text("called <b>the</b> bank")
    expect(page.get_by_label("What should the next person know?")).to_have_value("")

    page.get_by_role("button", name="Recover").click()
    expect(page.locator("#state")).to_contain_text("Recovering")
    assert DeadLetter.objects.get(pk=letter.pk).recovery_status == RecoveryStatus.RECOVERING
    handle(letter)
    if not script:
        page.reload()
    expect(page.locator("#state")).to_contain_text("Recovered")
    expect(page.locator("#timeline")).to_contain_text("Recovered: the handler has handled it")
    expect(page.locator("[hx-trigger*=every]")).to_have_count(0)


def test_a_lost_race_says_who_was_first(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    DeadLetter.objects.update(recovery_status=RecoveryStatus.RECOVERING, last_recovery_at=timezone.now())
    DeadLetterDeath.objects.update(recovery_sent_at=timezone.now(), recovery_actor="vera")

    page.get_by_role("button", name="Recover").click()
    expect(page.locator("#state")).to_contain_text("Already recovering, by vera at")


def test_a_session_that_ends_loses_no_typed_note_and_shows_no_page_in_a_fragment(open_page):
    letter = a_letter()
    page = open_page()
    address = f"/letters/{letter.pk}/"
    sign_in(page, "olga", address)
    page.locator("#note-text").fill("half a thought")
    Session.objects.all().delete()

    page.get_by_role("button", name="Write the note").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert not Note.objects.exists()
    page.get_by_label("User name").fill("olga")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{address}")
    expect(page.locator("#note-text")).to_have_value("half a thought")


def test_a_poll_of_an_ended_session_leads_to_the_sign_in(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    expect(page.locator("#state")).to_contain_text("Recovering")
    Session.objects.all().delete()

    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(page.locator("main")).to_have_count(1)


def test_a_right_that_was_taken_away_is_said_and_the_note_stays(open_page, operator):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    operator.groups.clear()

    page.locator("#note-text").fill("still here")
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator("#notes form .failure")).to_contain_text("You lack the right to do this. Nothing was changed.")
    expect(page.locator("#note-text")).to_have_value("still here")


def test_a_server_that_does_not_answer_is_said_and_polls_say_since_when(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#note-text").fill("still here")
    page.route("**/live*", lambda route: route.fulfill(status=503))
    page.route("**/notes", lambda route: route.fulfill(status=503))

    page.get_by_role("button", name="Write the note").click()
    expect(page.locator("#notes form .failure")).to_contain_text("The server is away for the moment.")
    expect(page.locator("#note-text")).to_have_value("still here")
    expect(page.locator("#live-note.stale")).to_contain_text("Not up to date since")
    page.unroute("**/live*")
    expect(page.locator("#live-note")).to_have_text("")


def test_newer_letters_are_offered_and_rows_stay_until_asked(open_page):
    first = a_letter(message_type="the.First")
    page = open_page()
    sign_in(page, "olga")
    a_letter(message_type="the.Second", dead_lettered_at=first.dead_lettered_at + timedelta(days=1))

    expect(page.locator("#newer")).to_contain_text("1 newer dead letter")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.locator("#newer a").click()
    expect(page.locator("[data-row]")).to_have_count(2)


HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "</textarea></pre><script>document.title='owned'</script>",
    '"><svg onload="document.title=\'owned\'">',
    '<b hx-post="/accounts/logout/" hx-trigger="load">x</b>',
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_does_nothing(open_page, text):
    a_letter(
        message_type=text,
        error=text,
        payload=json.dumps({text: text}),
        metadata=json.dumps({"headers": {text: text}}),
        subjects=[(text, text)],
    )
    page = open_page()
    sign_in(page, "olga")

    page.get_by_role("link", name=text, exact=True).first.click()
    page.locator("#note-text").fill(text)
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator(".notes li .text")).to_have_text(text)
    page.get_by_role("button", name="Recover").click()
    expect(page.locator("#state")).to_contain_text("Recovering")
    assert page.title() == f"{text} · Deadletters"
    assert page.locator("main img, main svg:not(.icon), main script, main [onerror], main b[hx-post]").count() == 0
    assert page.locator("[hx-post*=logout]").count() == 0


def test_back_and_forth_shows_what_the_address_says(open_page):
    for number in range(30):
        a_letter(message_type=f"type.Number{number}")
    page = open_page()
    sign_in(page, "olga", "/letters/?size=25")
    expect(page.locator("[data-row]")).to_have_count(25)

    page.get_by_role("link", name="Older").click()
    expect(page.locator("[data-row]")).to_have_count(5)
    page.get_by_label("State").select_option("held")
    expect(page.locator("#results")).to_contain_text("No dead letter matches.")
    assert page.url.endswith("/letters/?status=held&size=25")
    page.go_back()
    expect(page.locator("[data-row]")).to_have_count(5)
    expect(page.get_by_label("State")).to_have_value("")
    page.go_back()
    expect(page.locator("[data-row]")).to_have_count(25)
    page.locator("[data-row] .number").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("type.Number29")


def test_a_letter_that_dies_again_while_watched_says_so_and_can_be_recovered_again(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    expect(page.locator("#state")).to_contain_text("Recovering")

    DeadLetter.objects.update(recovery_status=RecoveryStatus.PENDING, deaths=2, row_version=5)
    expect(page.locator("#state")).to_contain_text("the last recovery failed again")
    expect(page.get_by_role("button", name="Recover")).to_be_enabled()
