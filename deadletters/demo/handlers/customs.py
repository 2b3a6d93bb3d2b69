"""Declaring goods: countries that get nothing, tariffs that nobody knows, documents that are not well-formed."""

from typing import Any
from xml.etree import ElementTree

from deadletters.demo.handlers.about import about
from queues import Message, Subject, Terminal, attributed, handles

TARIFFS = {
    "mug": "6912.00",
    "teapot": "6912.00",
    "lamp": "9405.21",
    "chair": "9401.61",
    "desk": "9403.30",
    "notebook": "4820.10",
    "ink": "3215.90",
}


class Embargo(Exception):
    """Nothing may be sent there."""


@handles("shop.DeclareGoods", max_attempts=2)
def declare_goods(message: Message) -> None:
    """Declare a parcel that leaves the country."""
    order = message.payload
    declaration = f"dec-{order['order_id']}"
    with attributed(*about(order), Subject("declaration", declaration), country=order["address"]["country"]):
        if order["fate"] == "embargo":
            raise Terminal(Embargo("licence 0C003 is missing"))
        codes = [_tariff(line, order["fate"]) for line in order["lines"]]
        _check(codes, order)


def _tariff(line: dict[str, Any], fate: str) -> str:
    return TARIFFS[f"{line['sku']}-xl" if fate == "no tariff" else line["sku"]]


def _check(codes: list[str], order: dict[str, Any]) -> None:
    items = "".join(f"<item>{code}</item>" for code in codes)
    end = "" if order["fate"] == "bad declaration" else "</declaration>"
    ElementTree.fromstring(f"<declaration>{items}{end}")  # noqa: S314 - our own text
