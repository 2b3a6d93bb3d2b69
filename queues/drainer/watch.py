"""A thread beside the drain: it renews leases, and ends the process when a handler runs past its limit."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import Error as DatabaseError
from django.db import connection

from queues.conf import conf
from queues.store.claims import Held

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Running:
    message_id: UUID
    until: float


class Watch:
    """Watches one drain; `holding` and `running` say what it does now."""

    def __init__(self) -> None:
        self._held: Held | None = None
        self._running: _Running | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="queues-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def hold(self, held: Held | None) -> None:
        """Renew these leases from now on."""
        self._held = held

    @contextmanager
    def running(self, message_id: UUID, limit_seconds: float) -> Iterator[None]:
        """Allow a handler this long; past it the process ends and the run is a lost worker's."""
        self._running = _Running(message_id=message_id, until=time.monotonic() + limit_seconds)
        try:
            yield
        finally:
            self._running = None

    def _loop(self) -> None:
        renew_at = time.monotonic() + conf().renewal_seconds
        try:
            while not self._stop.wait(min(1.0, conf().renewal_seconds / 4)):
                self._end_if_over(self._running)
                if time.monotonic() >= renew_at:
                    self._renew()
                    renew_at = time.monotonic() + conf().renewal_seconds
        finally:
            connection.close()

    def _end_if_over(self, running: _Running | None) -> None:
        if running is not None and time.monotonic() > running.until:
            log.error("time_limit_passed", message_id=str(running.message_id), process_id=os.getpid())
            os.kill(os.getpid(), signal.SIGKILL)

    def _renew(self) -> None:
        held = self._held
        if held is None:
            return
        try:
            held.renew(conf().lease)
        except DatabaseError as exc:
            log.warning("lease_not_renewed", queue=held.queue.name, error=str(exc)[:200])
            connection.close()
