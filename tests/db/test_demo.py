"""The demo shop: what its orders come to."""

import signal
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from django.db import connection

from deadletters.demo import weather
from deadletters.demo.handlers import pictures
from deadletters.demo.models import CustomerBalance, FailedOrder, OrderTotal
from deadletters.demo.orders import FATES, orders
from deadletters.models import DeadLetter
from queues import send
from queues.testing import drain

pytestmark = pytest.mark.django_db

SOURCES = ("wh_inbox", "wh_outbox", "wh_perspective_events")
FAIR_WEATHER = 0.0
NORTH_IS_AWAY = weather.OUTAGES["warehouse north"] * 60.0
BUGGY_RELEASE = weather.RELEASE_MINUTES * 60.0 + 60 * 1


class Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def fair(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let it be fair weather, or that of another time; killers only say so and reports take no time."""

    def at(now: float) -> None:
        monkeypatch.setattr(weather, "_now", lambda given: now if given is None else given)

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        raise Killed("killed")

    at(FAIR_WEATHER)
    monkeypatch.setattr(pictures, "SLOW_SECONDS", 0)
    monkeypatch.setattr(pictures.os, "kill", kill)
    return at


def run_all(orders_placed: list[dict[str, Any]]) -> None:
    for order in orders_placed:
        send("shop.PlaceOrder", order, stream=f"order-{order['order_id']}")
    settle()


def settle() -> None:
    """Drain until nothing waits, as if every wait were over."""
    for _ in range(60):
        for source in SOURCES:
            drain(source)
        with connection.cursor() as cursor:
            for source in SOURCES:
                cursor.execute(f"UPDATE {source} SET scheduled_for = now() - interval '1 second'")
            cursor.execute("UPDATE wh_streams SET due_at = now() - interval '1 second' WHERE due_at > now()")
            cursor.execute(" UNION ALL ".join(f"SELECT 1 FROM {source}" for source in SOURCES))
            if not cursor.fetchall():
                return
    pytest.fail("something waits for ever")


def ordered(fate: str, number: int = 1, **other: Any) -> dict[str, Any]:
    order = next(islice(orders(1), number, None))
    address = {**order["address"], "country": "NO"}
    return {**order, "fate": fate, "warehouse": "south", "address": address, **other}


def letters(**wanted: Any) -> list[DeadLetter]:
    return list(DeadLetter.objects.filter(**wanted).defer("envelope"))


def test_an_order_without_a_fate_leaves_no_letter() -> None:
    run_all([ordered("fine")])

    assert letters() == []
    assert OrderTotal.objects.count() == CustomerBalance.objects.count() == 1


@pytest.mark.parametrize("fate", sorted(set(FATES) - {"bank pending", "flaky gateway", "flaky model", "exact bytes"}))
def test_each_fate_leaves_letters(fate: str, fair: Callable[[float], None]) -> None:
    if fate == "discount invoice":
        fair(BUGGY_RELEASE)

    run_all([ordered(fate)])

    assert letters(), fate


@pytest.mark.parametrize("fate", ["bank pending", "flaky gateway", "flaky model", "exact bytes"])
def test_what_passes_leaves_none(fate: str) -> None:
    run_all([ordered(fate)])

    assert letters() == []


def test_all_fates_make_thirty_faults_of_all_sources_and_most_causes(fair: Callable[[float], None]) -> None:
    fair(BUGGY_RELEASE)
    run_all([ordered(fate, number) for number, fate in enumerate(FATES)])

    found = letters()
    assert len({letter.error_fingerprint for letter in found}) >= 30
    assert {letter.source_table for letter in found} == set(SOURCES)
    causes = {"budget_spent", "terminal", "delay_cap", "no_handler", "unreadable"}
    assert {letter.cause for letter in found} == causes
    assert Counter(letter.cause for letter in found)["unreadable"] == 3


def test_a_misspelt_destination_is_a_letter_of_the_outbox() -> None:
    run_all([ordered("misspelt destination")])

    (letter,) = letters(source_table="wh_outbox")
    assert letter.destination == "shop.warehosue"


def test_an_event_of_an_unknown_shape_is_a_letter_of_its_perspective() -> None:
    run_all([ordered("gift")])

    (letter,) = letters(source_table="wh_perspective_events")
    assert letter.perspective_name == "order_totals"


def test_an_upstream_that_is_away_is_back_later(fair: Callable[[float], None]) -> None:
    fair(NORTH_IS_AWAY)
    run_all([ordered("fine", warehouse="north")])
    (letter,) = letters()
    assert "WarehouseUnreachable" in (letter.error_text or "")

    fair(FAIR_WEATHER)
    recover(letter)

    letter.refresh_from_db(fields=["recovery_status"])
    assert letter.recovery_status == 3


def test_the_bug_of_a_release_is_gone_with_the_next(fair: Callable[[float], None]) -> None:
    fair(BUGGY_RELEASE)
    run_all([ordered("discount invoice")])
    (letter,) = letters()
    recover(letter)
    assert DeadLetter.objects.get(pk=letter.pk).deaths == 2

    fair(FAIR_WEATHER)
    recover(letter)

    letter.refresh_from_db(fields=["recovery_status"])
    assert letter.recovery_status == 3


def recover(letter: DeadLetter) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT recover_dead_letter(%s, 'olga')", [letter.pk])
        assert cursor.fetchone() == ("sent",)
    settle()


def test_every_fate_comes_within_one_round() -> None:
    rounds = islice(orders(7), len(FATES) * 5 // 2 + 5)

    assert {order["fate"] for order in rounds} == {*FATES, "fine"}


def test_the_same_seed_gives_the_same_orders() -> None:
    assert list(islice(orders(7), 50)) == list(islice(orders(7), 50))


def test_an_order_is_failed_while_its_payment_is_dead():
    declined = next(order for order in orders(1) if order["fate"] == "declined")
    run_all([declined])
    assert FailedOrder.objects.get().why.endswith("51 insufficient funds")

    send("shop.ChargeCard", {**declined, "cents": 1, "fate": "fine"})
    settle()
    assert not FailedOrder.objects.exists()
