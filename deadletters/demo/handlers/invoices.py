"""Printing invoices: a release has a bug with discounts, and the next one has not."""

from typing import Any

from deadletters.demo.handlers.about import about, stream_of
from deadletters.demo.weather import release
from queues import Message, Subject, attributed, handles, send


@handles("shop.PrintInvoice", max_attempts=2)
def print_invoice(message: Message) -> None:
    """Print an invoice, and send the receipt."""
    order = message.payload
    build, has_bug = release()
    with attributed(*about(order), Subject("invoice", f"inv-{order['order_id']}"), shop_release=build):
        if has_bug and (order["fate"] == "discount invoice" or order["order_id"].endswith("7")):
            _print_discount(order)
    send("shop.SendReceipt", order, stream=stream_of(order))


def _print_discount(order: dict[str, Any]) -> str:
    rebate: Any = order.get("discount")  # the bug: orders without a discount have none
    return f"{rebate['percent']} %"
