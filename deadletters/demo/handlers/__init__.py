"""Handlers of the demo shop: they succeed, fail, wait and die as real ones do.

What an order meets is its fate, dealt by its sender; some faults pass with the clock or the next life, some never.
"""

from deadletters.demo.handlers import (
    customs,
    fraud,
    invoices,
    mail,
    orders,
    payments,
    pictures,
    projections,
    shipping,
    stock,
    tax,
)

__all__ = [
    "customs",
    "fraud",
    "invoices",
    "mail",
    "orders",
    "payments",
    "pictures",
    "projections",
    "shipping",
    "stock",
    "tax",
]
