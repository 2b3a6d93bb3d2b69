"""What goes wrong by the clock: upstreams that are away for a minute, and a release with a bug until the next one.

So what died of it can be recovered a little later, and what is recovered too early dies again.
"""

import time

OUTAGE_EVERY_MINUTES = 6
OUTAGES = {"warehouse north": 2, "fraud model": 4}
"""The minute of each OUTAGE_EVERY_MINUTES in which an upstream is away."""

RELEASE_MINUTES = 4
FIRST_RELEASE = "2026.11"


def is_away(upstream: str, now: float | None = None) -> bool:
    """Say whether an upstream is away in this minute."""
    minute = int(_now(now) // 60)
    return minute % OUTAGE_EVERY_MINUTES == OUTAGES[upstream]


def release(now: float | None = None) -> tuple[str, bool]:
    """Return the shop's release and whether it has the bug: every second one has it."""
    number = int(_now(now) // 60 // RELEASE_MINUTES) % 1000
    return f"{FIRST_RELEASE}.{number}", number % 2 == 1


def _now(now: float | None) -> float:
    return time.time() if now is None else now
