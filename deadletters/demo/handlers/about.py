"""What messages of the shop are about, and their streams."""

from collections.abc import Mapping
from typing import Any

from queues import Subject


def about(payload: Mapping[str, Any]) -> tuple[Subject, ...]:
    """Return the subjects that every message of an order has."""
    return Subject("order", payload["order_id"]), Subject("customer", payload.get("customer", "a guest"))


def stream_of(payload: Mapping[str, Any]) -> str:
    """Return the stream of an order: its messages run one after the other."""
    return f"order-{payload['order_id']}"
