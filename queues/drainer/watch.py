"""A thread beside the drain: it renews leases, and ends the process when a handler runs past its limit."""

import faulthandler
import os
import signal
import threading
import time
from typing import NamedTuple

import structlog
from django.db import Error as DatabaseError
from django.db import connection

from queues import instances
from queues.conf import conf
from queues.store.claims import Claimed, Held
from queues.store.presence import Running
from queues.words.handlers import registry

log = structlog.get_logger(__name__)


_GRACE_SECONDS = 2.0
_STANDARD_ERROR = 2
_LONG_SECONDS = 1.0
"""A handler that has been running for longer is shown to operators."""


class _Running(NamedTuple):
    row: Claimed
    since: float
    until: float


class Watch:
    """Watches one drain; `hold`, `begins` and `ends` say what it does now."""

    def __init__(self) -> None:
        self._held: Held | None = None
        self._running: _Running | None = None
        self._shown: _Running | None = None
        self._longest = _longest_limit()
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

    def begins(self, row: Claimed, limit_seconds: float) -> None:
        """Allow a handler this long from now; past it the process ends and the run is a lost worker's."""
        now = time.monotonic()
        self._running = _Running(row, now, now + limit_seconds)

    def ends(self) -> None:
        """Note that the handler has returned."""
        self._running = None

    def _loop(self) -> None:
        renew_at = time.monotonic() + conf().renewal_seconds
        try:
            while True:
                self._set_last_resort(self._running)
                if self._stop.wait(min(1.0, conf().renewal_seconds / 4)):
                    return
                self._end_if_over(self._running)
                is_time = time.monotonic() >= renew_at
                if is_time:
                    self._renew()
                    renew_at = time.monotonic() + conf().renewal_seconds
                self._show(_if_long(self._running), even_if_known=is_time)
        finally:
            faulthandler.cancel_dump_traceback_later()
            connection.close()

    def _set_last_resort(self, running: _Running | None) -> None:
        """Let the process end without the help of Python, should this thread not come back in time.

        Code in C that keeps the interpreter's lock lets no thread run. One that began after this call gets the
        longest time that any handler may take.
        """
        allowed = self._longest if running is None else running.until - time.monotonic()
        faulthandler.dump_traceback_later(max(allowed, 0) + _GRACE_SECONDS, exit=True, file=_STANDARD_ERROR)

    def _end_if_over(self, running: _Running | None) -> None:
        if running is not None and time.monotonic() > running.until:
            log.error("time_limit_passed", message_id=str(running.row.message_id), process_id=os.getpid())
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

    def _show(self, running: _Running | None, *, even_if_known: bool) -> None:
        """Say what runs long, when that has changed or it is time for a heartbeat."""
        if running is self._shown and not even_if_known:
            return
        try:
            instances.keep_alive(_as_shown(running) if running else None)
        except DatabaseError as exc:
            log.warning("heartbeat_lost", error=str(exc)[:200])
            connection.close()
        else:
            self._shown = running


def _longest_limit() -> float:
    """Return the longest time that a handler of this process may take, in seconds."""
    handlers = [*map(registry.get, registry.types()), *(known.handler for known in registry.projections())]
    own = [handler.time_limit.total_seconds() for handler in handlers if handler and handler.time_limit]
    return max([conf().time_limit_seconds, *own])


def _if_long(running: _Running | None) -> _Running | None:
    is_long = running is not None and time.monotonic() - running.since > _LONG_SECONDS
    return running if is_long else None


def _as_shown(running: _Running) -> Running:
    row = running.row
    return Running(
        message_id=row.message_id,
        message_type=row.message_type,
        attempt=row.attempts + 1,
        seconds=time.monotonic() - running.since,
    )
