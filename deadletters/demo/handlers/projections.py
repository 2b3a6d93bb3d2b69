"""Perspectives of the shop: what orders came to, and what customers paid."""

from django.db.models import F

from deadletters.demo.models import CustomerBalance, OrderTotal
from queues import Message, Subject, attributed, projects


@projects("order_totals", "shop.OrderPlaced", max_attempts=3)
def order_totals(message: Message) -> None:
    """Keep what an order came to. The bug: gifts have no total."""
    event = message.payload
    with attributed(Subject("order", event["order_id"])):
        cents = event["total"]["cents"]
        OrderTotal.objects.update_or_create(
            order_id=event["order_id"], defaults={"cents": cents, "lines": event["lines"]}
        )


@projects("customer_balances", "shop.PaymentReceived", max_attempts=3)
def customer_balances(message: Message) -> None:
    """Add a payment to what its customer paid."""
    event = message.payload
    with attributed(Subject("customer", event["customer"]), Subject("order", event["order_id"])):
        cents = int(event["cents"])
        CustomerBalance.objects.get_or_create(customer=event["customer"], defaults={"cents": 0})
        CustomerBalance.objects.filter(customer=event["customer"]).update(cents=F("cents") + cents)
