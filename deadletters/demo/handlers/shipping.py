"""Shipping: addresses that are missing, carriers that refuse, a warehouse that is away for a minute."""

from typing import Any

from deadletters.demo.handlers.about import about
from deadletters.demo.weather import is_away
from queues import Message, Subject, attributed, handles

MAX_LABEL = 40


class WarehouseUnreachable(ConnectionError):
    """The warehouse's server did not answer."""


class CarrierBusy(Exception):
    """The carrier wants to be asked less often."""

    status_code = 429


@handles("shop.ShipOrder", max_attempts=2)
def ship_order(message: Message) -> None:
    """Ship an order."""
    order = message.payload
    parcel = f"parcel-{order['order_id']}"
    with attributed(*about(order), Subject("warehouse", order["warehouse"]), Subject("parcel", parcel)):
        if order["warehouse"] == "north" and is_away("warehouse north"):
            _ask_warehouse(order["warehouse"])
        _label(None if order["fate"] == "no address" else order["address"], order["fate"])
        _choose_carrier(order)


def _ask_warehouse(warehouse: str) -> None:
    try:
        raise ConnectionRefusedError(111, "Connection refused")
    except OSError as exc:
        raise WarehouseUnreachable(f"{warehouse}.warehouse.example:8443 does not answer") from exc


def _label(address: Any, fate: str) -> str:
    text = address["street"].strip()  # the bug: guests have no address
    text = text * 20 if fate == "long label" else text
    if len(text) > MAX_LABEL:
        raise ValueError(f"a label has {MAX_LABEL} characters, not {len(text)}")
    return str(text)


def _choose_carrier(order: dict[str, Any]) -> None:
    if order["fate"] == "carrier throttles":
        raise CarrierBusy("GET https://carrier.example/slots answered 429: Too Many Requests")
    if order["fate"] == "no carrier":
        refusals = [
            ValueError("post.example: 31 kg is too heavy"),
            PermissionError(13, "courier.example: account is blocked"),
        ]
        raise ExceptionGroup("no carrier takes the parcel", refusals)
