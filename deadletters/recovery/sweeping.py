"""Recoveries that got no answer in time, or never will."""

from collections.abc import Callable
from datetime import timedelta

from django.db import transaction

from deadletters.store import runs, steps

GRACE = timedelta(minutes=5)
"""How long a recovering letter may be without a message before it is held: a writer may not have committed yet."""

SWEPT_AT_ONCE = 1_000
MOST = 100_000
"""Recoveries that one sweep looks after; others are left to the next."""


def sweep() -> int:
    """End items whose deadline has passed, and hold letters whose message is nowhere; return how many there were."""
    swept = 0
    for work in (_end_overdue, _hold_lost):
        while swept < MOST and (count := _once(work)):
            swept += count
    return swept


def _end_overdue() -> int:
    return runs.end_overdue(SWEPT_AT_ONCE)


def _hold_lost() -> int:
    return runs.hold_lost(SWEPT_AT_ONCE, GRACE)


@transaction.atomic
def _once(work: Callable[[], int]) -> int:
    count = work()
    if count:
        steps.wake()
    return count
