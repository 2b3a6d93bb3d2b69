"""How busy the machine is, so that nobody else's work is measured."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
TICKS_PER_SECOND = 100
TOLD_SECONDS = 0.2
"""The machine counts in hundredths of a second: of a shorter time nothing is told."""
IDLE_CORES = 0.2
"""An idle machine keeps so many cores busy at most."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Seconds that all cores were busy for anybody since the machine started, at a moment; NaN where none can know."""

    busy_seconds: float
    at: float

    def cores_since(self, before: "Reading") -> float:
        """Return how many cores were busy on average between two readings; NaN where they are too close to tell."""
        seconds = self.at - before.at
        return (self.busy_seconds - before.busy_seconds) / seconds if seconds > TOLD_SECONDS else float("nan")


def read() -> Reading:
    """Read how busy the machine has been; stolen time counts as busy."""
    busy = float("nan")
    if STAT.exists():
        user, nice, system, _idle, _waiting, *rest = map(int, STAT.read_text().split("\n", 1)[0].split()[1:9])
        busy = (user + nice + system + sum(rest)) / TICKS_PER_SECOND
    return Reading(busy_seconds=busy, at=time.monotonic())


def wait_until_idle(patience_seconds: float) -> bool:
    """Return once the machine has been idle for a second; False = it was not within that time."""
    until = time.monotonic() + patience_seconds
    while True:
        before = read()
        time.sleep(1 if patience_seconds else 0)
        if not patience_seconds or read().cores_since(before) > IDLE_CORES:
            if time.monotonic() >= until:
                return False
            continue
        return True


def say(words: str) -> None:
    """Tell the person something beside the results."""
    sys.stderr.write(f"{words}\n")
