"""Handlers that are broken until somebody mends them; each payload is its number, from 0."""

import os
from pathlib import Path

from django.db import connection

from queues import handles
from tests.bench.recovery.letters import LATER, ORDER, SILENT, fails_again, fails_differently

MENDED = "SHOW_MENDED"
"""Environment variable with the path of a file; while it is there the handlers work."""


def _run(message):
    number = message.payload
    if fails_differently(number) and _is_mended():
        raise KeyError(number)
    if fails_again(number) or not _is_mended():
        raise ValueError("the tax service does not know the country")
    _effect(message)


def _is_mended():
    return Path(os.environ[MENDED]).exists()


def _effect(message):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO show_effects (type, number, stream) VALUES (%s, %s, %s)",
            [message.type, message.payload, message.meta.stream_id],
        )


for _type in (ORDER, SILENT):
    handles(_type, max_attempts=1)(_run)
handles(LATER, max_attempts=1)(_effect)
