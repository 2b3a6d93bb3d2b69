"""`manage.py demo_shop`: orders come in, about as many as make ten messages a second."""

import signal
import threading
from argparse import ArgumentParser
from itertools import islice
from random import Random
from typing import Any

import structlog
from django.core.management.base import BaseCommand
from django.db import OperationalError, close_old_connections, transaction

from deadletters.demo.orders import orders
from queues import send

log = structlog.get_logger(__name__)

MESSAGES_PER_ORDER = 11


class Command(BaseCommand):
    help = "Send orders of a made-up shop until a signal ends it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rate", type=float, default=10, help="messages a second, about")
        parser.add_argument("--seed", type=int, default=None, help="the same seed tells the same story")
        parser.add_argument("--orders", type=int, default=None, help="end after this many orders")

    def handle(self, *args: Any, **options: Any) -> None:
        """Place orders at the rate; a database that is away is waited for."""
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        seed = options["seed"] if options["seed"] is not None else Random().randrange(2**32)  # noqa: S311
        for order in islice(orders(seed), options["orders"]):
            self._place(order)
            if stop.wait(MESSAGES_PER_ORDER / options["rate"]):
                return

    def _place(self, order: dict[str, Any]) -> None:
        close_old_connections()
        try:
            with transaction.atomic():
                send("shop.PlaceOrder", order, stream=f"order-{order['order_id']}")
        except OperationalError as exc:
            log.warning("order_not_placed", error=str(exc)[:200])
