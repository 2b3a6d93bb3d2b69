"""Wake-ups of drainers: task names sent to the broker, on commit only.

A lost wake-up delays work by one tick and loses nothing, so a broker that is out of reach is logged, never
raised into the sender.
"""

from functools import partial

import structlog
from celery import current_app
from django.db import connection, transaction
from kombu.exceptions import OperationalError

from queues.conf import conf

log = structlog.get_logger(__name__)

DRAIN_TASK = "queues.drain"
CELERY_QUEUES = {"wh_inbox": "inbox", "wh_outbox": "outbox", "wh_perspective_events": "perspective"}


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


def send_wakeup(source: str) -> None:
    """Ask for a drain of the source now."""
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
        log.warning("wakeup_lost", source=source, error=str(exc))
