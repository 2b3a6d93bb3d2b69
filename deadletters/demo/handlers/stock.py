"""Reserving and picking stock: empty shelves and statements that the database refuses."""

from typing import Any

from django.db import connection

from deadletters.demo.handlers.about import about, stream_of
from queues import Message, Subject, attributed, handles, send


class OutOfStock(Exception):
    """Fewer items are on the shelf than were ordered."""


@handles("shop.ReserveStock", max_attempts=2)
def reserve_stock(message: Message) -> None:
    """Reserve what was ordered, and have it shipped."""
    order = message.payload
    skus = tuple(Subject("sku", line["sku"]) for line in order["lines"])
    with attributed(*about(order), *skus):
        _take(order)
        _shelf(order)
        _boxes(order)
    send("shop.ShipOrder", order, stream=stream_of(order))
    if order["address"]["country"] != "CH":
        send("shop.DeclareGoods", order, stream=stream_of(order))


@handles("shop.PickOrder", max_attempts=3)
def pick_order(message: Message) -> None:
    """Pick an order in the warehouse, which gets it through the outbox."""
    with attributed(*about(message.payload)):
        _ = [line["sku"] for line in message.payload["lines"]]


def _take(order: dict[str, Any]) -> None:
    if order["fate"] == "out of stock":
        raise OutOfStock(f"{order['lines'][0]['sku']}: 0 left, {order['lines'][0]['quantity']} ordered")


def _shelf(order: dict[str, Any]) -> None:
    number = "B-12" if order["fate"] == "bad shelf" else "12"
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::text::integer", [number])


def _boxes(order: dict[str, Any]) -> None:
    per_box = 0 if order["fate"] == "nothing per box" else 6
    with connection.cursor() as cursor:
        cursor.execute("SELECT 12 / %s::integer", [per_box])
