"""Wake-ups of drainers and others: task names sent to the broker, on commit only, and folded.

A lost wake-up delays work by one tick and loses nothing, so a broker that is out of reach is logged, never
raised into the sender.
"""

import atexit
import math
import os
import threading
import time
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Wakeup:
    """A task to be run now, by whoever serves the Celery queue."""

    task: str
    queue: str
    args: tuple[str, ...] = ()


def _drain_of(source: str) -> Wakeup:
    return Wakeup(task=DRAIN_TASK, queue=CELERY_QUEUES[source], args=(source,))


def wake(source: str) -> None:
    """Ask for a drain of the source when the present transaction commits; see `wake_up`."""
    wake_up(_drain_of(source))


def wake_up(wakeup: Wakeup) -> None:
    """Send a wake-up when the present transaction commits, or now without one.

    Equal ones of this process that follow each other within WAKEUP_FOLD_MS become one: the first goes at once, one
    more at the end of the time for all the others.
    """
    if not _is_due(wakeup):
        transaction.on_commit(partial(_send_folded, wakeup), robust=True)


def _is_due(wakeup: Wakeup) -> bool:
    """Say whether this transaction has this wake-up already."""
    return any(
        isinstance(entry[1], partial) and entry[1].func == _send_folded and entry[1].args == (wakeup,)
        for entry in connection.run_on_commit
    )


class _Fold:
    """When this process last sent each wake-up, and which wait for the time to pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent_at: dict[Wakeup, float] = {}
        self._waiting: dict[Wakeup, threading.Timer] = {}

    def send(self, wakeup: Wakeup) -> None:
        with self._lock:
            wait = self._sent_at.get(wakeup, -math.inf) + conf().wakeup_fold_ms / 1000 - time.monotonic()
            if wait > 0:
                if wakeup not in self._waiting:
                    self._waiting[wakeup] = timer = threading.Timer(wait, self._send_waiting, [wakeup])
                    timer.daemon = True
                    timer.start()
                return
            self._sent_at[wakeup] = time.monotonic()
        send(wakeup)

    def _send_waiting(self, wakeup: Wakeup) -> None:
        with self._lock:
            if self._waiting.pop(wakeup, None) is None:
                return
            self._sent_at[wakeup] = time.monotonic()
        send(wakeup)

    def send_all(self) -> None:
        """Send at once what waits: the process ends."""
        for wakeup in list(self._waiting):
            self._send_waiting(wakeup)


_fold = _Fold()


def _send_folded(wakeup: Wakeup) -> None:
    _fold.send(wakeup)


def _unfold() -> None:
    """Begin anew in a fork: its parent's threads are not there, and what waits is the parent's to send."""
    global _fold
    _fold = _Fold()


os.register_at_fork(after_in_child=_unfold)
atexit.register(lambda: _fold.send_all())

_silent_until = 0.0


def send_wakeup(source: str) -> None:
    """Ask for a drain of the source now."""
    send(_drain_of(source))


def send(wakeup: Wakeup) -> None:
    """Send a wake-up now; after a failure the broker is left alone for a tick."""
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        current_app.send_task(
            wakeup.task,
            args=wakeup.args,
            queue=wakeup.queue,
            expires=conf().tick_seconds,
            ignore_result=True,
            retry=False,
        )
    except OperationalError as exc:
        _silent_until = time.monotonic() + conf().tick_seconds
        log.warning("wakeup_lost", task=wakeup.task, queue=wakeup.queue, error=str(exc))
