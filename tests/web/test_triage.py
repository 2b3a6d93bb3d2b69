"""What people decide about one letter: hold, release, give up, open again; whose it is, and how long it is quiet."""

import pytest

from deadletters import triage
from deadletters.models import OperatorAction, RecoveryStatus
from tests.addresses import address
from tests.factories import a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def decide(page, letter, decision, **headers):
    sent = {"decision": decision, "status": letter.recovery_status}
    return page.post(address("decide", letter), sent, headers=headers)


def seen(page, letter):
    """Return what the letter's form was filled with."""
    content = page.get(address("letter", letter)).content.decode()
    return content.partition('name="seen" value="')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("before", "decision", "after", "decided"),
    [
        (RecoveryStatus.PENDING, "hold", RecoveryStatus.HELD, 2),
        (RecoveryStatus.PENDING, "give_up", RecoveryStatus.PERMANENTLY_FAILED, 3),
        (RecoveryStatus.HELD, "release", RecoveryStatus.PENDING, 0),
        (RecoveryStatus.HELD, "give_up", RecoveryStatus.PERMANENTLY_FAILED, 3),
        (RecoveryStatus.PERMANENTLY_FAILED, "reopen", RecoveryStatus.PENDING, 0),
        (RecoveryStatus.RECOVERING, "hold", RecoveryStatus.RECOVERING, 2),
    ],
)
@pytest.mark.parametrize("by", ["a person", "its policy"])
def test_a_decision_is_taken_and_kept(page, before, decision, after, decided, by):
    dispositions = {RecoveryStatus.HELD: 2, RecoveryStatus.PERMANENTLY_FAILED: 3} if by == "a person" else {}
    letter = a_letter(status=before, operator_disposition=dispositions.get(before, 0))

    assert f'value="{decision}"' in page.get(address("letter", letter)).content.decode()
    assert decide(page, letter, decision).headers["Location"] == address("letter", letter)
    letter.refresh_from_db()
    assert (letter.recovery_status, letter.operator_disposition) == (after, decided)
    assert OperatorAction.objects.get().action == "triage"
    assert "Changed " in page.get(address("letter", letter)).content.decode()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_decision_on_a_letter_in_another_state_is_409_and_does_nothing(page, headers):
    letter = a_letter(status=RecoveryStatus.RECOVERED)

    response = page.post(address("decide", letter), {"decision": "hold", "status": "0"}, headers=headers)
    assert response.status_code == 409
    assert "It has changed meanwhile. Nothing was done." in response.content.decode()
    assert not OperatorAction.objects.exists()


def test_a_recovered_letter_offers_no_decision_and_takes_none(page):
    letter = a_letter(status=RecoveryStatus.RECOVERED)

    assert 'name="decision"' not in page.get(address("letter", letter)).content.decode()
    assert decide(page, letter, "give_up").status_code == 409
    assert not OperatorAction.objects.exists()


def test_an_unknown_decision_is_400(page):
    assert decide(page, a_letter(), "explode").status_code == 400


def test_a_decision_by_htmx_answers_with_state_and_timeline(page):
    content = decide(page, a_letter(), "hold", **HTMX).content.decode()

    assert "<html" not in content
    assert "Held" in content
    assert 'id="timeline"' in content


def test_the_form_is_saved_and_shown(page):
    letter = a_letter(destination="https://u:hunter2@crm.example/", perspective_name="orders")
    sent = {"seen": seen(page, letter), "owner": "vera", "quiet_until": "2030-01-31T12:00", "reason": "asked her"}

    assert page.post(address("triage_letter", letter), sent).headers["Location"] == address("letter", letter)
    content = page.get(address("letter", letter)).content.decode()
    assert "quiet until 2030-01-31 12:00 UTC" in content
    assert "<dd>vera</dd>" in content
    assert "asked her" in content
    assert "<dd>orders</dd>" in content
    assert "crm.example" in content
    assert "hunter2" not in content


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_form_that_cannot_be_kept_is_422_with_what_was_typed(page, headers):
    letter = a_letter()
    sent = {"seen": seen(page, letter), "owner": "vera", "quiet_until": "soon"}

    response = page.post(address("triage_letter", letter), sent, headers=headers)
    assert response.status_code == 422
    assert "Quiet until must be a date and a time" in response.content.decode()
    assert 'value="vera"' in response.content.decode()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_form_is_out_of_date_by_another_person_but_not_by_a_recovery(page, operator, headers):
    letter = a_letter()
    filled = seen(page, letter)
    page.post(address("recover", letter))
    sent = {"seen": filled, "owner": "vera"}
    assert page.post(address("triage_letter", letter), sent, headers=headers).status_code in (200, 302)

    triage.change_letter(dead_letter_id=letter.pk, user=operator, changes={"owner": "first"})
    response = page.post(address("triage_letter", letter), {"seen": filled, "owner": "second"}, headers=headers)
    assert response.status_code == 409
    assert "<b>first</b>" in response.content.decode()
    letter.refresh_from_db()
    assert letter.owner == "first"


@pytest.mark.parametrize("owner", ["<img src=x onerror=alert(1)>", '"><script>alert(1)</script>'])
def test_hostile_owners_are_characters(page, owner):
    letter = a_letter(owner=owner, quiet_until_generation=owner, destination=owner)

    content = page.get(address("letter", letter)).content.decode()
    assert "<img src=x" not in content
    assert "<script>alert" not in content


def test_letters_are_found_by_what_triage_wrote(page):
    mine = a_letter(
        owner="vera", operator_disposition=2, status=RecoveryStatus.HELD, destination="crm", cause="terminal"
    )
    other = a_letter(perspective_name="orders", generation="build-9")

    def found(**parameters):
        return [row.letter.pk for row in page.get("/letters/", parameters).context["page"].rows]

    assert found(owner="vera") == found(disposition="hold") == found(destination="crm") == [mine.pk]
    assert found(cause="terminal") == [mine.pk]
    assert found(owner="-") == found(perspective="orders") == found(generation="build-9") == [other.pk]
    assert found(fingerprint=mine.error_fingerprint) == [other.pk, mine.pk]
    assert 'name="owner" value="vera"' in page.get("/letters/", {"owner": "vera"}).content.decode()
