"""Circuits of destinations: what publishing came to, noted here and written once for each batch.

A note is written outside the transaction that publishes, whose rollback would take it along.
"""

import time
from dataclasses import dataclass
from datetime import timedelta

import structlog

from queues.conf import conf
from queues.store import circuits
from queues.words.errors import NotReady
from queues.words.redaction import mask_text
from queues.words.text import bounded

log = structlog.get_logger(__name__)

MAX_ERROR = 500


@dataclass
class _Note:
    """Failures in a row up to now, and what the last one said; none = the last message was published."""

    failures: int = 0
    wait: timedelta = timedelta(0)
    error: str = ""


_notes: dict[str, _Note] = {}
_away_until: dict[str, float] = {}
"""Destinations that this process leaves alone, by its monotonic clock."""


def refuse_if_away(destination: str) -> None:
    """Raise NotReady, without a try, for a destination that has just failed here as often as opens its circuit."""
    until = _away_until.get(destination)
    if until is None:
        return
    if time.monotonic() < until:
        raise NotReady("the destination is away", wait=pause())
    _away_until.pop(destination, None)


def note_failure(destination: str, failure: NotReady) -> None:
    """Note that the destination was not ready."""
    note = _notes.setdefault(destination, _Note())
    note.failures += 1
    note.wait = failure.wait
    note.error = bounded(mask_text(str(failure)), MAX_ERROR)
    if note.failures >= conf().circuit_failures:
        # Half of the circuit's shortest wait: the rest of a batch is over by then, and no trial has begun.
        _away_until[destination] = time.monotonic() + pause().total_seconds() / 2


def note_success(destination: str) -> None:
    """Note that the destination has answered."""
    _away_until.pop(destination, None)
    _notes[destination] = _Note()


def write() -> None:
    """Write what was noted, in a transaction of its own: circuits open, or close where they were not closed."""
    if not _notes:
        return
    noted = dict(_notes)
    _notes.clear()
    changes = circuits.note(
        [
            circuits.Note(destination=name, failures=note.failures, wait=note.wait, error=note.error)
            for name, note in noted.items()
        ],
        failures_to_open=conf().circuit_failures,
        base=pause(),
        factor=conf().backoff_factor,
        cap=timedelta(seconds=conf().backoff_max_seconds),
    )
    for change in changes:
        log.warning("circuit", destination=change.destination, state=change.state, retry_at=change.retry_at)


def pause() -> timedelta:
    """Return the shortest wait for a destination that is not ready."""
    return timedelta(seconds=conf().backoff_base_seconds)
