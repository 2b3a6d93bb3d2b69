"""Calculating taxes: tables with holes, amounts that are none, regions that contain each other."""

from decimal import Decimal
from typing import Any

from deadletters.demo.handlers.about import about, stream_of
from queues import Message, Subject, attributed, handles, send

RATES = {"CH": Decimal("8.1"), "NO": Decimal(25), "JP": Decimal(10)}
PARENTS = {"zürich": "switzerland", "switzerland": "alps", "alps": "switzerland"}


class RateUnknown(LookupError):
    """No tax rate is known."""


@handles("shop.CalculateTax", max_attempts=2)
def calculate_tax(message: Message) -> None:
    """Calculate the tax of an order, and have its invoice printed."""
    order = message.payload
    country = order["address"]["country"]
    with attributed(*about(order), Subject("country", country)):
        rate = _rate("AQ" if order["fate"] == "no tax rate" else country)
        tax = _amount(order) * rate / 100
        if order["fate"] == "endless regions":
            _root_of("zürich")
    send("shop.PrintInvoice", {**order, "tax": str(tax)}, stream=stream_of(order))


def _rate(country: str) -> Decimal:
    try:
        return RATES[country]
    except KeyError as exc:
        raise RateUnknown(f"no rate for {country}") from exc


def _amount(order: dict[str, Any]) -> Decimal:
    return Decimal("CHF 12.-" if order["fate"] == "bad tax amount" else order["cents"])


def _root_of(region: str) -> str:
    return _root_of(PARENTS[region]) if region in PARENTS else region
