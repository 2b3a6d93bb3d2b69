"""What the list counts: exact or capped, newer ones offered, and no row lost to a count that takes too long."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import override_settings
from django.utils import timezone

from deadletters.models import RecoveryStatus
from deadletters.queries import letters, totals
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def test_counts_are_capped(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    for _ in range(26):
        a_letter()
    content = page.get("/letters/", {"reason": "unknown", "size": "25"}).content.decode()
    assert "10,000+" in content
    assert "count exactly" in content


def test_what_is_counted_anyway_is_exact_whatever_the_cap(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    for status in [RecoveryStatus.HELD] * 3 + [RecoveryStatus.PENDING]:
        a_letter(status=status)
    a_letter(source_table="wh_outbox")

    def counted(**parameters):
        total = page.get("/letters/", parameters).context["counted"].value
        assert not total.is_capped
        return total.n

    assert [counted(), counted(status="held"), counted(source="outbox")] == [5, 3, 1]
    assert counted(disposition="none", source="inbox") == 4


def test_a_capped_count_is_counted_to_the_end_when_asked_for(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    for _ in range(4):
        a_letter()

    fragment = page.get("/letters/count", {"reason": "unknown"}, headers=HTMX).content.decode()
    assert "4" in fragment
    assert "10,000+" not in fragment
    assert "<tr" not in fragment
    whole = page.get("/letters/count", {"reason": "unknown"})
    assert whole.context["counted"].value.n == 4
    assert len(whole.context["page"].rows) == 4
    assert page.get("/letters/count", {"reason": "nope"}).status_code == 400


def test_a_count_that_takes_too_long_takes_no_row_with_it(page, monkeypatch):
    for _ in range(26):
        a_letter(message_type="the.Row")

    def slow(*_, **__):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(20)")

    monkeypatch.setattr(totals, "total", slow)
    with override_settings(DEADLETTERS={"REGION_SECONDS": 0.05}):
        content = page.get("/letters/", {"size": "25"}).content.decode()

    assert "Counting took too long." in content
    assert "the.Row" in content


def test_rows_that_take_too_long_leave_the_search_and_say_so(page, monkeypatch):
    a_letter(message_type="the.Row")

    def slow(*_, **__):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(20)")

    monkeypatch.setattr(letters, "page", slow)
    with override_settings(DEADLETTERS={"REGION_SECONDS": 0.05}):
        content = page.get("/letters/", {"q": "x y"}).content.decode()

    assert "Took too long." in content
    assert "/letters/?q=x+y" in content
    assert "the.Row" not in content


def test_newer_letters_are_counted_and_offered_while_the_rows_stay(page):
    a_letter(dead_lettered_at=NOON)
    shown = page.get("/letters/").context["page"]
    for second in (0, 1):
        a_letter(dead_lettered_at=NOON + timedelta(seconds=second), dead_letter_id=UUID(int=2**128 - 1 - second))

    content = page.get("/letters/newer", {"after": str(shown.newest)}, headers=HTMX).content.decode()
    assert "2" in content
    assert "newer dead letters" in content
    newest = page.get("/letters/").context["page"].newest
    assert page.get("/letters/newer", {"after": str(newest)}, headers=HTMX).content.strip() == b""


@pytest.mark.parametrize("others", [[], [timedelta(days=-1)]], ids=["alone", "above another"])
def test_a_letter_of_the_future_is_no_news_and_hides_none(page, others):
    now = timezone.now()
    for apart in [timedelta(days=3000), *others]:
        a_letter(dead_lettered_at=now + apart)
    after = {"after": str(page.get("/letters/").context["page"].newest)}
    assert page.get("/letters/newer", after, headers=HTMX).content.strip() == b""

    a_letter(dead_lettered_at=timezone.now())
    response = page.get("/letters/newer", after, headers=HTMX)
    assert response.context["count"] == 1


def test_newer_ones_are_counted_under_the_same_filter(page):
    a_letter(dead_lettered_at=NOON, error="one")
    shown = page.get("/letters/", {"q": "one"}).context["page"]
    a_letter(dead_lettered_at=NOON + timedelta(seconds=1), error="two")

    response = page.get("/letters/newer", {"after": str(shown.newest), "q": "one"}, headers=HTMX)
    assert response.content.strip() == b""
