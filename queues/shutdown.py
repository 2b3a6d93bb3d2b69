"""Whether this Celery worker was asked to end: known to the process that got the signal and to its whole pool.

A drain that is told gives back what it has not started, so that a warm shutdown takes as long as the running
handlers, not as long as the drains.
"""

import mmap
from typing import Any

from celery.signals import worker_shutting_down

_asked = mmap.mmap(-1, 1)
"""One byte of shared memory: made before the pool is forked, and so seen by processes forked at any time."""


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def ask(**_: Any) -> None:
    """Ask every drain of this worker to end."""
    _asked[0] = 1


def is_asked() -> bool:
    """Say whether this worker is to end."""
    return _asked[0] != 0


def forget() -> None:
    """Take the request back, for a process that runs on."""
    _asked[0] = 0
