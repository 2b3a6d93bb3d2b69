"""Wake-ups of drainers: task names sent to the broker, on commit only.

A lost wake-up delays work by one tick and loses nothing, so a broker that is out of reach is logged, never
raised into the sender.
"""

import time
from functools import partial

import structlog
from celery import current_app
from django.db import connection, transaction
from kombu.exceptions import OperationalError

from queues.conf import conf
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES

log = structlog.get_logger(__name__)

DRAIN_TASK = "queues.drain"
CELERY_QUEUES = {INBOX: "inbox", OUTBOX: "outbox", PERSPECTIVES: "perspective"}


def wake(source: str) -> None:
    """Send one wake-up for the source when the present transaction commits, or now without one."""
    if not _is_due(source):
        transaction.on_commit(partial(send_wakeup, source), robust=True)


def _is_due(source: str) -> bool:
    """Say whether this transaction has a wake-up for the source already."""
    return any(
        isinstance(entry[1], partial) and entry[1].func is send_wakeup and entry[1].args == (source,)
        for entry in connection.run_on_commit
    )


_silent_until = 0.0


def send_wakeup(source: str) -> None:
    """Ask for a drain of the source now; after a failure the broker is left alone for a tick."""
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        current_app.send_task(
            DRAIN_TASK,
            args=[source],
            queue=CELERY_QUEUES[source],
            expires=conf().tick_seconds,
            ignore_result=True,
            retry=False,
        )
    except OperationalError as exc:
        _silent_until = time.monotonic() + conf().tick_seconds
        log.warning("wakeup_lost", source=source, error=str(exc))
