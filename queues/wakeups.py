"""Wake-ups of drainers: task names sent to the broker, on commit only, and folded.

A lost wake-up delays work by one tick and loses nothing, so a broker that is out of reach is logged, never
raised into the sender.
"""

import atexit
import math
import os
import threading
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
    """Send one wake-up for the source when the present transaction commits, or now without one.

    Wake-ups of this process that follow each other within WAKEUP_FOLD_MS become one: the first goes at once, one
    more at the end of the time for all the others.
    """
    if not _is_due(source):
        transaction.on_commit(partial(_send_folded, source), robust=True)


def _is_due(source: str) -> bool:
    """Say whether this transaction has a wake-up for the source already."""
    return any(
        isinstance(entry[1], partial) and entry[1].func == _send_folded and entry[1].args == (source,)
        for entry in connection.run_on_commit
    )


class _Fold:
    """When this process last woke each source, and which wake-ups wait for the time to pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent_at: dict[str, float] = {}
        self._waiting: dict[str, threading.Timer] = {}

    def send(self, source: str) -> None:
        with self._lock:
            wait = self._sent_at.get(source, -math.inf) + conf().wakeup_fold_ms / 1000 - time.monotonic()
            if wait > 0:
                if source not in self._waiting:
                    self._waiting[source] = timer = threading.Timer(wait, self._send_waiting, [source])
                    timer.daemon = True
                    timer.start()
                return
            self._sent_at[source] = time.monotonic()
        send_wakeup(source)

    def _send_waiting(self, source: str) -> None:
        with self._lock:
            if self._waiting.pop(source, None) is None:
                return
            self._sent_at[source] = time.monotonic()
        send_wakeup(source)

    def send_all(self) -> None:
        """Send at once what waits: the process ends."""
        for source in list(self._waiting):
            self._send_waiting(source)


_fold = _Fold()


def _send_folded(source: str) -> None:
    _fold.send(source)


def _unfold() -> None:
    """Begin anew in a fork: its parent's threads are not there, and what waits is the parent's to send."""
    global _fold
    _fold = _Fold()


os.register_at_fork(after_in_child=_unfold)
atexit.register(lambda: _fold.send_all())

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
