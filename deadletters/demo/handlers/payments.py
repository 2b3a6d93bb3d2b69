"""Charging cards: declined is for good, pending means later, a gateway's fault passes with the next life."""

from datetime import timedelta
from typing import Any

from deadletters.demo.handlers.about import about, stream_of
from deadletters.demo.models import FailedOrder
from queues import (
    DeadLetter,
    Delay,
    Message,
    Subject,
    Terminal,
    append_event,
    attributed,
    handles,
    on_dead_letter,
    send,
)


class CardDeclined(Exception):
    """The bank said no; `code` is its word for why."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


@handles("shop.ChargeCard", max_attempts=3, max_delays=3)
def charge_card(message: Message) -> None:
    """Charge a card, and let the order go on."""
    payment = message.payload
    payment_id = f"pay-{payment['order_id']}"
    with attributed(*about(payment), Subject("payment", payment_id), cents=payment["cents"]):
        _ask_bank(payment)
        _await_bank(payment, message.meta.delays)
        _ask_gateway(payment, message)
        _digits(payment)
        paid = {"customer": payment["customer"], "order_id": payment["order_id"], "cents": payment["cents"]}
        append_event(f"customer-{payment['customer']}-{payment_id}", "shop.PaymentReceived", _as_told(paid, payment))
    FailedOrder.objects.filter(order_id=payment["order_id"]).delete()
    for message_type in ("shop.CalculateTax", "shop.ReserveStock"):
        send(message_type, payment, stream=stream_of(payment))


@on_dead_letter("shop.ChargeCard")
def fail_order(letter: DeadLetter) -> None:
    """Mark the orders that the dead payment was about as failed; a payment that is charged after all clears it."""
    why = letter.failure.message if letter.failure else "no reason was recorded"
    about_orders = letter.failure.ids("order") if letter.failure else ()
    for order_id in about_orders or (letter.payload["order_id"],):
        FailedOrder.objects.update_or_create(order_id=order_id, defaults={"why": why})


def _ask_bank(payment: dict[str, Any]) -> None:
    if payment["fate"] == "declined":
        raise Terminal(CardDeclined("insufficient_funds", "51 insufficient funds"))
    if payment["fate"] == "stolen card":
        raise Terminal(CardDeclined("stolen_card", "43 the card was reported stolen"))


def _await_bank(payment: dict[str, Any], delays: int) -> None:
    if payment["fate"] == "bank undecided" or (payment["fate"] == "bank pending" and delays < 2):
        raise Delay(timedelta(seconds=4), "the bank has not decided yet")


def _ask_gateway(payment: dict[str, Any], message: Message) -> None:
    if payment["fate"] == "gateway timeout" and message.meta.life == 1:
        raise TimeoutError("POST https://shop:s3cret@pay.example/charges timed out after 10 s")
    if payment["fate"] == "flaky gateway" and message.meta.attempts == 1:
        raise ConnectionResetError(104, "Connection reset by peer")


def _digits(payment: dict[str, Any]) -> int:
    currency = "XTS" if payment["fate"] == "unknown currency" else "CHF"
    return {"CHF": 2, "NOK": 2, "JPY": 0}[currency]


def _as_told(paid: dict[str, Any], payment: dict[str, Any]) -> dict[str, Any]:
    """Return the event as this bank words it, which the projection does not always expect."""
    if payment["fate"] == "paid in text":
        return {**paid, "cents": f"{payment['cents'] / 100:.2f} CHF"}
    return {**paid, "cents": -payment["cents"]} if payment["fate"] == "refunded too much" else paid
