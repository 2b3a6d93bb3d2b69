"""What the demo shop keeps."""

from django.db import models


class OrderTotal(models.Model):
    """What one order came to; written by the perspective `order_totals`."""

    order_id = models.TextField(primary_key=True)
    cents = models.BigIntegerField()
    lines = models.IntegerField()

    class Meta:
        db_table = "demo_order_totals"
        constraints = [models.CheckConstraint(name="demo_order_totals_have_lines", condition=models.Q(lines__gte=1))]


class CustomerBalance(models.Model):
    """What a customer paid, in all; written by the perspective `customer_balances`."""

    customer = models.TextField(primary_key=True)
    cents = models.BigIntegerField()

    class Meta:
        db_table = "demo_customer_balances"
        constraints = [
            models.CheckConstraint(name="demo_customer_balances_not_negative", condition=models.Q(cents__gte=0))
        ]


class FailedOrder(models.Model):
    """An order whose payment died, until that is made good; written by the reaction to dead payments."""

    order_id = models.TextField(primary_key=True)
    why = models.TextField()

    class Meta:
        db_table = "demo_failed_orders"
