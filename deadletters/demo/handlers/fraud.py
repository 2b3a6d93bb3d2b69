"""Checking for fraud: a model that is asked over the network, and is away for a minute now and then."""

from datetime import date
from typing import Any

from deadletters.demo.handlers.about import about, stream_of
from deadletters.demo.weather import is_away
from queues import Message, Terminal, attributed, handles, send


class FraudSuspected(Exception):
    """The model said no."""

    code = "rule_17"


class ModelUnavailable(Exception):
    """The model's server said that it is busy."""

    status_code = 503


@handles("shop.CheckFraud", max_attempts=2)
def check_fraud(message: Message) -> None:
    """Score an order, and ask for its payment."""
    order = message.payload
    with attributed(*about(order), cents=order["cents"]):
        _ask_model(order, message.meta.attempts)
        if _score(order) > 90:
            raise Terminal(FraudSuspected(f"score 97 for order {order['order_id']}"))
        _age(order)
    send("shop.ChargeCard", order, stream=stream_of(order))


def _ask_model(order: dict[str, Any], attempt: int) -> None:
    is_asked = order["order_id"].endswith(("3", "6"))  # the others are known customers
    if (is_asked and is_away("fraud model")) or (order["fate"] == "flaky model" and attempt == 1):
        raise ModelUnavailable("POST https://fraud.example/score?api_key=sk-live-9f3 answered 503")


def _score(order: dict[str, Any]) -> int:
    scores = {} if order["fate"] == "no score" else {order["customer"]: 12}
    if order["fate"] == "fraud suspected":
        scores[order["customer"]] = 97
    return scores[order["customer"]]


def _age(order: dict[str, Any]) -> date:
    return date.fromisoformat("1990-02-30" if order["fate"] == "odd birthday" else "1990-02-28")
