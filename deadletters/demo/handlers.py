"""Handlers of the demo shop: they succeed, fail, wait and die as real ones do.

What a message does is decided by its payload, so that the same seed tells the same story; recovering helps
where the fault was passing and does not where it was not.
"""

from datetime import timedelta
from typing import Any

from queues import Delay, Message, Subject, Terminal, attributed, handles, send


class CardDeclined(Exception):
    """The bank said no."""


class OutOfStock(Exception):
    """Fewer items are on the shelf than were ordered."""


class WarehouseUnreachable(ConnectionError):
    """The warehouse's server did not answer."""


def _about(payload: dict[str, Any]) -> tuple[Subject, ...]:
    return Subject("order", payload["order_id"]), Subject("customer", payload.get("customer", "a guest"))


@handles("shop.PlaceOrder", max_attempts=3)
def place_order(message: Message) -> None:
    """Check an order, and ask for its payment; an order without lines is the sender's bug."""
    order = message.payload
    lines = order.get("lines", [])
    with attributed(*_about(order), lines=len(lines)):
        if not lines:
            raise Terminal("an order needs at least one line")
        total = sum(line["quantity"] * line["cents"] for line in lines)
        send("shop.ChargeCard", {**order, "cents": total}, stream=f"order-{order['order_id']}")


@handles("shop.ChargeCard", max_attempts=3)
def charge_card(message: Message) -> None:
    """Charge a card: declined is for good, pending means later, a gateway fault passes with the next life."""
    payment = message.payload
    with attributed(*_about(payment), cents=payment["cents"]):
        mood = payment["mood"]
        if mood == "declined":
            raise Terminal(CardDeclined("51 insufficient funds"))
        if mood == "pending" and message.meta.delays < 2:
            raise Delay(timedelta(seconds=4), "the bank has not decided yet")
        if mood == "gateway" and message.meta.life == 1:
            raise TimeoutError("POST https://shop:s3cret@pay.example/charges timed out after 10 s")
        if mood == "flaky" and message.meta.attempts == 1:
            raise TimeoutError("GET https://pay.example/health timed out after 2 s")
    send("shop.ShipOrder", payment, stream=f"order-{payment['order_id']}")


@handles("shop.ShipOrder", max_attempts=2)
def ship_order(message: Message) -> None:
    """Ship an order: a bug, a shelf that is empty, a warehouse that answers only in the next life."""
    parcel = message.payload
    with attributed(*_about(parcel), Subject("warehouse", parcel["warehouse"])):
        if parcel["mood"] == "no-address":
            parcel["address"]["street"].strip()  # the bug: guests have no address
        if parcel["mood"] == "out-of-stock":
            raise OutOfStock(f"{parcel['lines'][0]['sku']}: 0 left")
        if parcel["mood"] == "warehouse" and message.meta.life == 1:
            _ask_warehouse(parcel["warehouse"])


def _ask_warehouse(warehouse: str) -> None:
    try:
        raise OSError(111, "Connection refused")
    except OSError as exc:
        raise WarehouseUnreachable(f"{warehouse} does not answer") from exc
