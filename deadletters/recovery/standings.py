"""How far a run is, counted over its letters, and remembered for a moment by whoever steps it."""

import time
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from deadletters.models import ItemState, RecoveryItem, RecoveryRun
from deadletters.queries import runs

FRESH_SECONDS = 1.0
"""How long a count is good to send by: a run of a million letters is not counted for each thousand."""

_FAILURES = (ItemState.FAILED_AGAIN, ItemState.FAILED_DIFFERENTLY, ItemState.NO_ANSWER)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How many letters of a run wait, are out, were put off by their handlers, have an answer, and failed."""

    waiting: int
    in_flight: int
    delayed: int
    answered: int
    failed: int

    @property
    def sent(self) -> int:
        """Letters that were sent, but for those put off: others take their places in a wave."""
        return self.in_flight - self.delayed + self.answered

    @property
    def is_answered(self) -> bool:
        return self.in_flight == self.delayed


@dataclass(frozen=True, kw_only=True)
class _Known:
    standing: Standing
    counted_at: float
    stepped_at: datetime | None = None


class Counts:
    """What one stepper knows of its runs. A count holds while nobody else has stepped the run, for FRESH_SECONDS.

    Answers that come meanwhile are not in it: it is no reason to send more than there is room for.
    """

    def __init__(self) -> None:
        self._known: dict[UUID, _Known] = {}

    def known(self, run: RecoveryRun) -> Standing | None:
        """Return what is known of a run that the caller has locked; None = it is to be counted."""
        known = self._known.get(run.run_id)
        if known is None or known.stepped_at != run.stepped_at:
            return None
        return known.standing if time.monotonic() - known.counted_at < FRESH_SECONDS else None

    def count(self, run: RecoveryRun) -> Standing:
        """Count a run's letters."""
        totals = runs.totals(run.run_id)
        sent = RecoveryItem.objects.filter(run=run, state=ItemState.SENT)
        failed = sum(totals[state] for state in _FAILURES)
        standing = Standing(
            waiting=totals[ItemState.WAITING],
            in_flight=totals[ItemState.SENT],
            delayed=sent.filter(delayed_until__isnull=False).count() if totals[ItemState.SENT] else 0,
            answered=failed + totals[ItemState.RECOVERED],
            failed=failed,
        )
        self._known[run.run_id] = _Known(standing=standing, counted_at=time.monotonic())
        return standing

    def note(self, run: RecoveryRun, standing: Standing, *, sent: int, skipped: int) -> None:
        """Note what was sent on a standing."""
        now = replace(standing, waiting=standing.waiting - sent - skipped, in_flight=standing.in_flight + sent)
        self._known[run.run_id] = replace(self._known[run.run_id], standing=now)

    def forget(self, run_id: UUID) -> None:
        """Know nothing of a run any more."""
        self._known.pop(run_id, None)

    def stamp(self, run_id: UUID, stepped_at: datetime) -> None:
        """Note when the run was stepped: what is known is of that moment."""
        if run_id in self._known:
            self._known[run_id] = replace(self._known[run_id], stepped_at=stepped_at)
