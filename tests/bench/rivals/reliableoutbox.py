"""django-reliable-outbox: one worker publishes as many messages as each line says, and this says how many a second.

Runs in an environment of its own. Its first argument: JSON with `database` (Django's settings of a database) and
`broker`, the URL of a Redis or Valkey for redis-py, to whose streams it publishes. It does not listen, so that it
ends when nothing is left.
"""

import json
import sys
import time

import django
from django.conf import settings

SCHEMA = "reliable_outbox"
BATCH = 500
PAYLOAD = {"number": 1, "text": "x" * 176}
GIVEN = json.loads(sys.argv[1])
STREAM = "bench_reliable_outbox"
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "CONN_MAX_AGE": None,
            "OPTIONS": {"options": f"-c search_path={SCHEMA}"},
            **GIVEN["database"],
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "reliable_outbox"],
    LOGGING_CONFIG=None,
    RELIABLE_OUTBOX={
        "BATCH_SIZE": BATCH,
        "NOTIFY": False,
        "DESTINATIONS": {
            "default": {
                "BACKEND": "reliable_outbox.destinations.redis.RedisStreamDestination",
                "OPTIONS": {"url": GIVEN["broker"], "stream": STREAM},
            }
        },
    },
    SECRET_KEY="bench",
    USE_TZ=True,
)
django.setup()

import redis  # noqa: E402 - the settings come first
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from reliable_outbox import publish  # noqa: E402
from reliable_outbox.models import OutboxMessage  # noqa: E402


def measure(messages: int) -> float:
    client = redis.Redis.from_url(GIVEN["broker"])
    client.delete(STREAM)
    OutboxMessage.objects.all().delete()
    with transaction.atomic():
        for _ in range(messages):
            publish("bench.nothing", PAYLOAD)
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {OutboxMessage._meta.db_table}")
    started = time.perf_counter()
    call_command("outbox_worker", burst=True)
    seconds = time.perf_counter() - started
    if client.xlen(STREAM) != messages:
        raise RuntimeError(f"{client.xlen(STREAM)} of {messages} were published")
    return messages / seconds


def main() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
    call_command("migrate", verbosity=0)
    for line in sys.stdin:
        print(measure(int(line)), flush=True)  # noqa: T201 - this is its output


if __name__ == "__main__":
    main()
