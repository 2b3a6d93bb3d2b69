"""What the search suggests while it is typed: keys, and values that are in use, never a secret."""

import re

import pytest

from deadletters import counting
from deadletters.models import Generation
from deadletters.queries import suggestions
from tests.factories import a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def suggested(page, text):
    response = page.get("/letters/suggest", {"search": text}, headers=HTMX)
    assert response.status_code == 200
    return re.findall(r'data-text="([^"]*)"', response.content.decode())


def test_keys_are_suggested_by_their_beginning_and_by_what_pages_call_them(page):
    assert suggested(page, "st") == ["status:", "stream:"]
    assert suggested(page, "sta") == ["status:"]
    assert suggested(page, "build") == ["generation:"]
    assert suggested(page, "boom") == []


def test_a_key_that_is_used_is_not_suggested_again(page):
    assert "status:" in suggested(page, "")
    assert "status:" not in suggested(page, "status:open ")
    assert "status:" not in suggested(page, "state:open s")


def test_values_that_are_known_without_looking(page):
    assert suggested(page, "status:re") == ["status:recovering", "status:recovered"]
    assert suggested(page, "boom state:giv") == ["status:given_up"]
    assert "reason:validation_error" in suggested(page, "reason:valid")
    assert suggested(page, "since:") == ["since:1h", "since:24h", "since:7d", "since:30d"]


def test_values_in_use_hold_what_is_typed_those_that_begin_with_it_first(page):
    for name in ("shop.Charge", "billing.ChargeCard", "Charge.Back"):
        a_letter(message_type=name, error=f"ValueError: {name}", destination="topic/eu", source_table="wh_outbox")
    a_letter(owner="vera", subjects=[("order", "1")])
    Generation.objects.create(service="shop", build="2026.1")
    counting.fold()

    types = suggested(page, "type:charge")
    assert types[0] == "type:Charge.Back"
    assert set(types[1:]) == {"type:shop.Charge", "type:billing.ChargeCard"}
    assert suggested(page, "owner:") == ["owner:olga", "owner:-", "owner:vera"]
    assert suggested(page, "generation:26") == ["generation:2026.1"]
    assert suggested(page, "destination:EU") == ["destination:topic/eu"]
    assert suggested(page, "subject:or") == ["subject:order:"]


def test_a_value_with_spaces_is_suggested_in_quotation_marks_and_goes_on_within_them(page):
    a_letter(message_type="order placed")
    counting.fold()

    assert suggested(page, "type:ord") == ["type:&quot;order placed&quot;"]
    assert suggested(page, 'type:"order p') == ["type:&quot;order placed&quot;"]


def test_nothing_that_holds_a_secret_or_cannot_be_typed_is_suggested(page):
    a_letter(message_type="https://user:hunter2@x.example/")
    a_letter(message_type="x\x01y", error="ValueError: other")
    a_letter(message_type="z" * 300, error="ValueError: third")
    counting.fold()

    assert suggested(page, "type:") == []


@pytest.mark.parametrize(
    "text", ['"', 'a "b', "stauts:x", "https://x", 'status:open"', "x" * 9_000, "a\x00b", "-status:"]
)
def test_whatever_is_typed_is_answered(page, text):
    suggested(page, text)


def test_values_come_out_of_samples_by_indexes(page, django_assert_max_num_queries):
    for key in suggestions._READS:
        with django_assert_max_num_queries(12):
            suggested(page, f"{key}:")


def test_without_htmx_it_leads_to_the_list(page):
    assert page.get("/letters/suggest", {"search": "st"}).headers["Location"] == "/letters/"
