"""Sending receipts: mail servers that refuse, templates of last year, names beyond ASCII."""

import smtplib
from typing import Any

from deadletters.demo.handlers.about import about
from queues import Message, Subject, attributed, handles

TEMPLATE = "Dear {customer}, thank you for order {order_id}."
OLD_TEMPLATE = "Dear {title} {surname}, thank you for order {order_id}."


@handles("shop.SendReceipt", max_attempts=2)
def send_receipt(message: Message) -> None:
    """Send the receipt of an order."""
    order = message.payload
    with attributed(*about(order), Subject("mailbox", order["email"])):
        text = _render(order)
        _header(order)
        _deliver(order, text)


def _render(order: dict[str, Any]) -> str:
    template = OLD_TEMPLATE if order["fate"] == "old template" else TEMPLATE
    return template.format(customer=order["customer"], order_id=order["order_id"])


def _header(order: dict[str, Any]) -> bytes:
    encoding = "ascii" if order["fate"] == "plain ascii" else "utf-8"
    return f"Receipt for {order['customer']}, Zürich".encode(encoding)


def _deliver(order: dict[str, Any], text: str) -> None:
    if order["fate"] == "mail refused":
        raise smtplib.SMTPRecipientsRefused({order["email"]: (550, b"5.1.1 no such user")})
    if order["fate"] == "mailbox full":
        raise smtplib.SMTPDataError(452, f"4.2.2 {order['email']}: mailbox full after {len(text)} bytes".encode())
