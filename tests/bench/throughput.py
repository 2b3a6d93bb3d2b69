"""Messages a second that one drainer takes from the inbox: `make bench`. Migrates the database that it is given."""

import os
import sys
import time

import django
from django.core.management import call_command

MESSAGES = 20_000


def main() -> None:
    """Send, drain, and say how long each took; fails when a message is left."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    call_command("migrate", verbosity=0)
    from queues.drainer import drain
    from queues.sending import send_many
    from queues.words.handlers import handles
    from queues.words.messages import NewMessage

    handles("bench.Nothing")(lambda message: None)
    started = time.perf_counter()
    for _ in range(MESSAGES // 1000):
        send_many([NewMessage(type="bench.Nothing", payload={"order_id": n}) for n in range(1000)])
    sent = time.perf_counter()
    drained = drain("wh_inbox", seconds=None).messages
    ended = time.perf_counter()
    print(f"sent     {MESSAGES / (sent - started):8.0f} messages/s")  # noqa: T201 - this is its output
    print(f"drained  {drained / (ended - sent):8.0f} messages/s, one drainer")  # noqa: T201
    if drained != MESSAGES:
        sys.exit(f"{MESSAGES - drained} messages were not drained")


if __name__ == "__main__":
    main()
