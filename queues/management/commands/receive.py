"""`manage.py receive --queue NAME`: messages of a broker's queue, into the inbox."""

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from queues.receiving import receive


class Command(BaseCommand):
    help = "Store the messages of a broker's queue in the inbox until a signal ends it; the queue is declared first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queue", required=True, help="the queue, and the exchange that it is bound to")
        parser.add_argument("--url", help="the broker; by default Celery's")
        parser.add_argument("--until-empty", action="store_true", help="end when the queue is empty")

    def handle(self, *args: Any, **options: Any) -> None:
        """Receive; a first SIGINT or SIGTERM lets the present batch be stored and acknowledged."""
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        stored = receive(options["queue"], url=options["url"], stop=stop, until_empty=options["until_empty"])
        for what, count in sorted(stored.items()):
            self.stdout.write(f"{what}: {count}")
