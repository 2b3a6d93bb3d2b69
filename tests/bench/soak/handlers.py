"""What becomes of the soak's messages: payload `[kind, number, stream]` says it."""

import os
import signal
from pathlib import Path

from django.db import connection

from queues import Delay, handles, projects
from tests.bench.soak.messages import DELAYED, EVENT, FAILING, KILLER, PERSPECTIVE, TYPES


def _run(message):
    kind, number, stream = message.payload
    if kind == FAILING:
        raise ValueError("it fails, however often it is tried")
    if kind == DELAYED and not message.meta.delays:
        raise Delay(0.2)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO soak_effects (source, stream, number) VALUES (%s, %s, %s)",
            [message.meta.source, stream, number],
        )
    if kind == KILLER:
        with (Path(os.environ["SOAK_FOLDER"]) / "starts").open("a") as file:
            file.write(f"{number}\n")
        os.kill(os.getpid(), signal.SIGKILL)


for _type in TYPES:
    handles(_type)(_run)
projects(PERSPECTIVE, EVENT, after_death="continue")(_run)
