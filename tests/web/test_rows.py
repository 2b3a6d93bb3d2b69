"""What is done to a letter from its row: the row stays, and says what became of it."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission

from deadletters.models import DeadLetter, Disposition, OperatorAction, RecoveryStatus
from tests.factories import a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

HERE = {"Referer": "http://testserver/letters/?status=open&q=no+such"}


def act(page, letter, verb, *, headers=HTMX, **more):
    seen = {"death": "1", "version": "1", "status": str(int(letter.recovery_status)), **more}
    return page.post(f"/letters/{letter.pk}/act", {"verb": verb, **seen}, headers=headers)


def test_a_recovered_row_stays_recovering_and_watches_for_its_verdict(page):
    letter = a_letter(message_type="the.Row")

    response = act(page, letter, "recover")
    content = response.content.decode()
    assert response.status_code == 200
    assert content.strip().startswith("<tr")
    for said in ("the.Row", "Recovering", "Sent back to its queue.", f"/letters/{letter.pk}/row?seen="):
        assert said in content
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.RECOVERING


@pytest.mark.parametrize(
    ("status", "verb", "after", "said"),
    [
        (RecoveryStatus.PENDING, "hold", RecoveryStatus.HELD, "Held by you just now."),
        (RecoveryStatus.PENDING, "give_up", RecoveryStatus.PERMANENTLY_FAILED, "Given up by you just now."),
        (RecoveryStatus.HELD, "release", RecoveryStatus.PENDING, "Released by you just now."),
        (RecoveryStatus.PERMANENTLY_FAILED, "reopen", RecoveryStatus.PENDING, "Opened again by you just now."),
    ],
)
def test_a_decision_in_a_row_shows_its_new_state_and_is_audited(page, status, verb, after, said):
    letter = a_letter(status=status)

    response = act(page, letter, verb)
    assert said in response.content.decode()
    assert DeadLetter.objects.get().recovery_status == after
    assert OperatorAction.objects.get().action == "triage"


def test_who_comes_second_gets_409_and_the_row_as_it_is(page):
    letter = a_letter(status=RecoveryStatus.RECOVERED)

    second = act(page, letter, "recover")
    stale = act(page, letter, "hold", status="0")
    assert (second.status_code, stale.status_code) == (409, 409)
    assert "Already recovered by olga" in second.content.decode()
    assert "It has changed meanwhile. Nothing was done." in stale.content.decode()
    assert "Recovered" in stale.content.decode()


def test_without_script_an_action_leads_back_to_the_list_and_says_what_was_done(page):
    letter = a_letter()

    response = act(page, letter, "hold", headers=HERE)
    assert (response.status_code, response.headers["Location"]) == (302, "/letters/?status=open&q=no+such")
    assert "Held by you just now." in page.get("/letters/").content.decode()


def test_links_of_a_row_that_was_renewed_go_on_with_the_filter_of_its_list(page):
    letter = a_letter(source_table="wh_inbox")

    content = act(page, letter, "hold", headers=HTMX | {"HX-Current-URL": HERE["Referer"]}).content.decode()
    assert "/letters/?status=open&amp;source=inbox&amp;q=no+such" in content


def test_a_row_that_did_not_change_is_not_sent_again(page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    address = f"/letters/{letter.pk}/row"

    assert page.get(address, {"seen": "1"}, headers=HTMX).status_code == 204
    DeadLetter.objects.update(row_version=2, recovery_status=RecoveryStatus.PENDING)
    assert "Open" in page.get(address, {"seen": "1"}, headers=HTMX).content.decode()
    assert page.get(address).headers["Location"] == f"/letters/{letter.pk}/"


def test_an_unknown_verb_is_400_and_a_letter_that_is_gone_404(page):
    letter = a_letter()
    assert act(page, letter, "burn").status_code == 400
    letter.superseded_by = letter.pk
    letter.save(update_fields=["superseded_by"])
    assert act(page, letter, "hold").status_code == 404
    assert OperatorAction.objects.count() == 0


@pytest.mark.parametrize(
    ("right", "verb", "other", "after"),
    [
        ("triage", "hold", "recover", RecoveryStatus.HELD),
        ("recover", "recover", "hold", RecoveryStatus.RECOVERING),
    ],
)
def test_each_verb_needs_its_own_right(signed_in, right, verb, other, after):
    user, letter = a_user("rita", "Viewers"), a_letter()
    user.user_permissions.add(Permission.objects.get(codename=right))
    browser = signed_in(user)

    assert act(browser, letter, other).status_code == 403
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING
    assert not OperatorAction.objects.exists()
    assert act(browser, letter, verb).status_code == 200
    assert DeadLetter.objects.get().recovery_status == after


def test_who_lacks_the_right_learns_nothing_of_the_letter_not_even_that_it_changed_or_is_gone(signed_in):
    user, letter = a_user("rita", "Viewers"), a_letter(status=RecoveryStatus.HELD)
    user.user_permissions.add(Permission.objects.get(codename="recover"))
    browser = signed_in(user)

    assert act(browser, letter, "hold", status="0").status_code == 403
    assert browser.post(f"/letters/{uuid4()}/act", {"verb": "give_up"}, headers=HTMX).status_code == 403
    assert act(browser, letter, "burn").status_code == 403
    assert act(browser, letter, "hold", status="0", headers={}).status_code == 403


def test_a_row_offers_what_may_be_done_by_whom(page, signed_in, viewer):
    a_letter()
    a_letter(status=RecoveryStatus.RECOVERED)

    shown = page.get("/letters/").content.decode()
    in_menu = [shown.count(f'class="link" name="verb" value="{verb}"') for verb in ("hold", "give_up", "release")]
    assert in_menu == [1, 1, 0]
    assert shown.count('name="verb" value="recover"') == 1
    assert 'value="reopen"' not in shown
    seen = signed_in(viewer).get("/letters/").content.decode()
    assert 'name="verb"' not in seen
    assert 'class="pick"' not in seen


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"status": RecoveryStatus.HELD, "operator_disposition": Disposition.HOLD_INDEFINITELY}, "by a person"),
        ({"status": RecoveryStatus.RECOVERING, "operator_disposition": 3}, "then give up"),
        ({"status": RecoveryStatus.PENDING, "operator_disposition": 1}, "retry now"),
        ({"deaths": 2}, "died 2×"),
        ({"deaths": 3}, "died 3×"),
        ({"owner": "vera"}, "vera"),
        ({"source_table": "wh_perspective_events", "perspective_name": "order totals"}, "order totals"),
    ],
)
def test_a_row_says_in_words_what_was_decided_and_by_whom_it_is_looked_after(page, fields, said):
    a_letter(**fields)

    assert said in page.get("/letters/").content.decode()


def test_letters_of_any_source_are_one_list(page):
    for source in ("wh_inbox", "wh_outbox", "wh_perspective_events", "broker", "a_foreign_table"):
        a_letter(source_table=source)

    content = page.get("/letters/").content.decode()
    for name in ("Inbox", "Outbox", "Perspectives", "Broker", "a_foreign_table"):
        assert f">{name}" in content
