"""Placing orders: where every message of an order begins."""

from typing import Any

from deadletters.demo.handlers.about import about, stream_of
from deadletters.demo.poison import BYTES, send_bytes
from queues import Message, Terminal, append_event, attributed, handles, publish, send


class EmptyOrder(Exception):
    """An order without a line."""


@handles("shop.PlaceOrder", max_attempts=3)
def place_order(message: Message) -> None:
    """Check an order, and tell everybody who works on it; an order without lines is the sender's bug."""
    order = message.payload
    with attributed(*about(order), lines=len(order["lines"]), fate=order["fate"]):
        cents = _total(order) - _discount(order)
        _refuse_negative(order, cents)
        placed = {**order, "cents": cents}
        _tell(placed)
        _also_send(placed)


def _total(order: dict[str, Any]) -> int:
    lines = [] if order["fate"] == "no lines" else order["lines"]
    if not lines:
        raise Terminal(EmptyOrder(f"order {order['order_id']} has no line"))
    return sum(_quantity(line, order["fate"]) * int(line["cents"]) for line in lines)


def _quantity(line: dict[str, Any], fate: str) -> int:
    return int("a dozen" if fate == "bad quantity" else line["quantity"])


def _discount(order: dict[str, Any]) -> int:
    return 10_000_000 if order["fate"] == "too much discount" else 0


def _refuse_negative(order: dict[str, Any], cents: int) -> None:
    assert cents >= 0, f"order {order['order_id']} comes to {cents} cents"


def _tell(order: dict[str, Any]) -> None:
    stream = stream_of(order)
    event = {"order_id": order["order_id"], "lines": len(order["lines"]), "total": {"cents": order["cents"]}}
    if order["fate"] == "gift":
        event["total"] = None  # the shape that the projection does not know
    if order["fate"] == "unknown field":
        event["lines"] = 0
    append_event(stream, "shop.OrderPlaced", event)
    destination = "shop.warehosue" if order["fate"] == "misspelt destination" else "shop.warehouse"
    publish("shop.PickOrder", order, destination=destination, stream=stream, max_attempts=3)
    send("shop.CheckFraud", order, stream=stream)


def _also_send(order: dict[str, Any]) -> None:
    if order["fate"] in BYTES:
        send_bytes(order["fate"], order["order_id"])
    if order["fate"] == "retired command":
        send("shop.NotifyFax", {"order_id": order["order_id"]})
    if order["fate"] in ("huge picture", "killer"):
        for number in range(4):  # neighbours of a killer are released, and handled after it
            send("shop.ResizePicture", {**order, "number": number})
    if order["fate"] == "slow report":
        send("shop.WriteReport", order)


@handles("shop.ImportOrder", max_attempts=3)
def import_order(message: Message) -> None:
    """Take an order of a partner, exactly as it was written."""
    with attributed(*about(message.payload)):
        _ = message.payload["cents"] + 0
