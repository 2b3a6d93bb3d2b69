"""The page of one dead letter: why it died, what it was about, what happened, and what it holds."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters.models import DeadLetter, DeadLetterPayload, Note, OperatorAction, RecoveryStatus
from queues.models import DeliveryLogEntry
from tests.factories import NOON, a_letter, a_run
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

TRACE = """shop.errors.Declined: no funds
Traceback (most recent call last):
  File "/srv/venv/lib/python3.11/site-packages/queues/drainer/runs.py", line 9, in run
    handler(message)
  File "/srv/shop/handlers.py", line 41, in charge
    gateway.charge()
shop.errors.Declined: no funds"""


def shown(page, letter):
    response = page.get(reverse("deadletters:letter", args=[letter.pk]))
    assert response.status_code == 200
    return response.content.decode()


def test_it_says_why_with_library_frames_folded(page):
    content = shown(page, a_letter(error=TRACE, cause="terminal"))

    assert "Its handler said that it can never succeed." in content
    assert "1 library frame<" in content
    folded = content.partition('<details class="library">')[2].partition("</details>")[0]
    assert "site-packages" in folded
    assert "/srv/shop/handlers.py" not in folded
    assert "/srv/shop/handlers.py" in content


def test_frames_of_our_own_code_are_open_where_a_setting_says_so(page, settings):
    settings.DEADLETTERS = {"OWN_CODE": ["/srv/venv/lib/python3.11/site-packages/queues/"]}

    assert "library frame" not in shown(page, a_letter(error=TRACE))


def test_what_stands_behind_a_failure_is_a_step_of_its_own(page):
    content = shown(page, a_letter(error=f"{TRACE}\n\nBehind it:\nConnectionError: refused \x1b[31m"))

    trace = content.partition('<div class="trace"')[2].partition("</div>")[0]
    assert "Behind it</p>" in trace
    assert trace.count("shop.errors.Declined: no funds<") == 1
    assert "ConnectionError: refused \\x1b[31m" in trace


def test_no_reason_and_an_empty_reason_look_different(page):
    assert "No reason was recorded." in shown(page, a_letter(error=None))
    assert "The recorded reason is empty." in shown(page, a_letter(error=""))


def test_the_last_reported_error_stands_beside_a_lost_worker(page):
    content = shown(page, a_letter(error="exceeded retry limit", cause="worker_lost", last_reported="OSError: disk"))

    assert "exceeded retry limit" in content
    assert "Last reported by an earlier run" in content
    assert "OSError: disk" in content


def test_subjects_lead_to_their_pages_with_their_letters(page):
    letter = a_letter(subjects=[("order", "4 2&x=#/é"), ("customer", "7")])

    content = shown(page, letter)
    link = content.partition('<a class="subject" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert [row.letter.pk for row in page.get(link).context["found"].value.rows] == [letter.pk]
    assert "Unattributed" in shown(page, a_letter())


def test_numbers_are_shown_with_all_their_digits(page):
    numbers = ["12345678901234567890123", "0.1000000000000000055511151231257827", "1.10", "123456789012345678.90"]

    content = shown(page, a_letter(payload=json.dumps({"n": "@"}).replace('"@"', f"[{', '.join(numbers)}]")))
    for number in numbers:
        assert f">{number}<" in content


def test_a_number_of_five_thousand_digits_is_shown_cut_and_says_so(page):
    assert "(cut, 5,000 characters)" in shown(page, a_letter(payload="9" * 5_000))


def test_secrets_are_masked_at_any_depth(page):
    payload = {
        "token": "hidden-1",
        "lines": [{"card": {"card_number": 4242424242424242, "ok": "visible"}}],
        "credentials": {"user": "hidden-2"},
        "url": "https://u:hidden-3@shop.example/",
    }
    metadata = {"headers": {"Authorization": "Basic hidden-4", "x-trace": "visible-header"}}

    content = shown(page, a_letter(payload=json.dumps(payload), metadata=json.dumps(metadata), error="token=hidden-5"))
    assert "hidden-" not in content
    assert "4242424242424242" not in content
    assert "visible" in content
    assert "visible-header" in content


@pytest.mark.parametrize("depth", [61, 1_500, 5_000])
def test_a_payload_that_is_too_deep_is_shown_as_cut_text(page, depth):
    content = shown(page, a_letter(payload="[" * depth + "]" * depth))

    assert "Too large to show as a tree" in content
    assert "[[[[[" in content


def test_a_payload_that_is_too_large_is_cut_and_its_secrets_are_masked(page):
    payload = {
        "a": {"token": "hidden-1"},
        "credentials": {"user": "hidden-2"},
        "the_longest_key_is_last": "x" * 300_000,
    }

    content = shown(page, a_letter(payload=json.dumps(payload)))
    assert "Too large to show as a tree" in content
    assert "hidden-" not in content
    assert len(content) < 200_000


def test_a_wide_payload_makes_a_bounded_page(page):
    payload = json.dumps([[1] * 400] * 100)

    content = shown(page, a_letter(payload=payload))
    assert "more</span>" in content
    assert len(content) < 1_000_000


def test_a_failure_detail_deeper_than_python_parses_does_not_break_the_page(page):
    letter = a_letter()
    with connection.cursor() as cursor:
        deep = '{"detail": ' + "[" * 3_000 + "]" * 3_000 + "}"
        cursor.execute("UPDATE wh_dead_letters SET failure_detail = %s::jsonb", [deep])
        cursor.execute("UPDATE dead_letter_deaths SET failure_detail = %s::jsonb", [deep])

    assert "Too large to show as a tree" in shown(page, letter)
    assert page.get("/letters/").status_code == 200


def test_a_payload_of_an_adopted_database_is_shown_whole(page):
    letter = a_letter()
    DeadLetter.objects.update(envelope={"MessageId": "abc"})

    assert "MessageId" in shown(page, letter)


def test_the_timeline_tells_everything_in_order(page):
    died_at = timezone.now()  # the delivery log has partitions for the present only
    letter = a_letter(deaths=2, status=RecoveryStatus.RECOVERED, dead_lettered_at=died_at, error="second death")
    Note.objects.create(
        dead_letter=letter, text="called the bank", author="olga", written_at=died_at + timedelta(minutes=5)
    )
    OperatorAction.objects.create(
        actor="vera", action="recover", dead_letter_id=letter.pk, after={"outcome": "recovering"}, at=died_at
    )
    for attempt, outcome in ((1, "failure"), (2, "terminal")):
        DeliveryLogEntry.objects.create(
            source="wh_inbox",
            message_id=letter.source_id,
            attempt=attempt,
            outcome=outcome,
            failure_message=f"run {attempt}",
            duration_ms=5,
            started_at=died_at - timedelta(seconds=3 - attempt),
            logged_at=died_at + timedelta(milliseconds=20),
        )

    titles = [
        event.title for event in page.get(reverse("deadletters:letter", args=[letter.pk])).context["timeline"].events
    ]
    assert titles == [
        "Note",
        "Recovered: the handler has handled it",
        "Recovery sent",
        "Dead-lettered again (death 2) · build build-1",
        "Tried to recover: recovering",
        "Failed for good after 5 ms · attempt 2",
        "Failed after 5 ms · attempt 1",
        "Dead-lettered · build build-1",
    ]


def test_a_superseded_letter_leads_to_its_survivor(page):
    survivor = a_letter(message_type="the.Survivor")
    old = a_letter(source_id=survivor.source_id, superseded_by=survivor.pk)

    assert "the.Survivor" in shown(page, old)


def test_letters_that_supersede_each_other_are_not_followed_for_ever(page):
    one, two = a_letter(), a_letter()
    DeadLetter.objects.filter(pk=one.pk).update(superseded_by=two.pk)
    DeadLetter.objects.filter(pk=two.pk).update(superseded_by=one.pk)

    assert page.get(reverse("deadletters:letter", args=[one.pk])).status_code == 404


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_letter_that_is_not_there_is_404(page, headers):
    response = page.get(reverse("deadletters:live", args=[uuid4()]), headers=headers, follow=True)

    assert response.status_code == 404
    assert "There is no such dead letter." in response.content.decode()
    assert page.get("/letters/not-an-id/").status_code == 404


def test_only_a_recovering_letter_polls(page):
    for status in RecoveryStatus:
        content = shown(page, a_letter(status=status))
        assert ("every 2s" in content) == (status == RecoveryStatus.RECOVERING)


def test_a_poll_swaps_nothing_until_something_happened(page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    address = shown(page, letter).partition('hx-get="')[2].partition('"')[0]

    assert page.get(address, headers=HTMX).status_code == 204
    DeadLetter.objects.update(recovery_status=3, recovered_at=NOON, row_version=2)
    changed = page.get(address, headers=HTMX)
    assert changed.status_code == 200
    assert "Recovered" in changed.content.decode()
    assert "every 2s" not in changed.content.decode()


def test_the_poll_without_htmx_is_the_page(page):
    letter = a_letter()

    response = page.get(reverse("deadletters:live", args=[letter.pk]))
    assert response.headers["Location"] == reverse("deadletters:letter", args=[letter.pk])


def test_the_number_of_queries_is_bounded_and_the_exact_bytes_are_not_read(page):
    letter = a_letter(deaths=3, subjects=[("order", str(n)) for n in range(20)], stream_id=uuid4())
    old = a_letter(source_id=letter.source_id, superseded_by=letter.pk)
    for number in (1, 2):
        DeadLetterPayload.objects.create(
            dead_letter=letter, version=number, envelope={}, message_id=uuid4(), edited_by="vera"
        )
    DeadLetter.objects.filter(pk=letter.pk).update(edited_version=2, source_row={"position": 7})
    a_run([letter])
    address = reverse("deadletters:letter", args=[old.pk])

    with CaptureQueriesContext(connection) as queries:
        assert page.get(address, {"in": "status=open&q=Value"}).status_code == 200
    assert len(queries) <= 12
    assert not any('"envelope_raw"' in query["sql"] or '"source_row"' in query["sql"] for query in queries)
