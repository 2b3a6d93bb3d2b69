"""How far a recovery run is: in words, in numbers that add up, and as a meter that the server draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ENDS = ("recovered", "failed_again", "failed_differently", "no_answer", "skipped")
"""States in which a letter of a run has ended, in the order in which a meter shows them."""
SHOWN = (*ENDS, "sent", "waiting")

NAMES = {
    "recovered": "recovered",
    "failed_again": "failed again",
    "failed_differently": "failed differently",
    "no_answer": "no answer",
    "skipped": "skipped",
    "sent": "sent, no answer yet",
    "waiting": "not sent yet",
}
ENDED = ("stopped", "finished")
_LEAST = 3
"""Units that a part of a meter takes at least: one letter of 100,000 that failed must be seen."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a meter; `x` and `width` are in SVG's notation. `has_room`: for a mark inside it."""

    key: str
    name: str
    count: int
    x: str
    width: str
    middle: str
    has_room: bool


@dataclass(frozen=True, kw_only=True)
class Meter:
    """The states of a run's letters side by side, `width` x `height` units; no part of it is empty."""

    width: int
    height: int
    parts: Sequence[Part]
    total: int
    summary: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known of a run: its state, its present wave (0 = the canary) and its letters by state.

    canary: letters that go first, as far as there are so many. The state "starting": a run that a person started and
    that waits for its time, or for a worker. stop_reason: of one that ends, or has ended before its end.
    """

    state: str
    counts: Mapping[str, int]
    wave: int = 0
    canary: int = 0
    stop_reason: str = ""

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def waiting(self) -> int:
        return self.counts.get("waiting", 0)

    @property
    def unanswered(self) -> int:
        return self.counts.get("sent", 0)

    @property
    def ended(self) -> int:
        return sum(self.counts.get(state, 0) for state in ENDS)

    @property
    def answered(self) -> int:
        """How many were sent and have a verdict, an overdue answer among them."""
        return self.ended - self.counts.get("skipped", 0)

    @property
    def failed(self) -> int:
        return self.counts.get("failed_again", 0) + self.counts.get("failed_differently", 0)

    @property
    def is_moving(self) -> bool:
        """Whether something may change by itself, or by another person."""
        return self.state in ("freezing", "starting", "running", "paused") or self.unanswered > 0

    def words(self) -> str:
        """Say where the run is, in a sentence."""
        if self.state == "freezing":
            return "Collecting its letters"
        if self.state == "ready":
            return f"Waits for its start: {self.waiting:,} to send"
        if self.state == "starting":
            return f"Starts: {self.waiting:,} to send"
        if self.state in ENDED:
            return self._end()
        if self.stop_reason:
            return f"Ends, {self.stop_reason}{self._kept()}"
        said = self._wave()
        return f"Paused. {said}" if self.state == "paused" else said

    def _kept(self) -> str:
        if not self.waiting:
            return ""
        return f": {self.waiting:,} not sent {'stays' if self.waiting == 1 else 'stay'} dead"

    def _wave(self) -> str:
        if self.wave == 0 and self.canary:
            most = min(self.canary, self.total - self.counts.get("skipped", 0))
            return f"Canary: {self.answered:,} of {most:,} answered"
        handed = f"{self.total - self.waiting:,} of {self.total:,} done or under way"
        return f"Wave {self.wave:,}: {handed}" if self.canary else handed

    def _end(self) -> str:
        said = self._ended()
        waits = f". {self.unanswered:,} still without an answer" if self.unanswered else ""
        return f"{said[:1].upper()}{said[1:].rstrip('.')}{waits}"

    def _ended(self) -> str:
        if self.stop_reason.lower().startswith("stopped"):
            return self.stop_reason
        if self.stop_reason:
            return f"{self.state}: {self.stop_reason}"
        if self.state == "stopped":
            return self.state
        return f"finished: {self.counts.get('recovered', 0):,} of {self.total:,} recovered"

    def seconds_left(self, *, rate: float | None, elapsed: float) -> float | None:
        """Return about how long the rest takes at the plan's rate, or as fast as until now; None = nobody knows."""
        rest = self.waiting + self.unanswered
        if self.state != "running" or not rest or (self.wave == 0 and self.canary):
            return None
        if elapsed <= 0 or not self.answered:
            return self.waiting / rate if rate else None
        so_far = rest * elapsed / self.answered
        return max(so_far, self.waiting / rate) if rate else so_far


def meter(counts: Mapping[str, int], *, width: int, height: int) -> Meter:
    """Draw the states of a run's letters; those that are few are drawn wider than they are."""
    present = [(key, counts[key]) for key in SHOWN if counts.get(key)]
    total = sum(count for _, count in present)
    parts: list[Part] = []
    at = 0.0
    for (key, count), size in zip(present, _widths([count for _, count in present], width), strict=True):
        parts.append(
            Part(
                key=key,
                name=NAMES[key],
                count=count,
                x=f"{at:.1f}",
                width=f"{max(size - 1, 1):.1f}",
                middle=f"{at + size / 2 - height * 0.3:.1f}",
                has_room=size > 1.5 * height,
            )
        )
        at += size
    summary = ", ".join(f"{part.count:,} {part.name}" for part in parts) or "no letters"
    return Meter(width=width, height=height, parts=parts, total=total, summary=summary)


def _widths(counts: Sequence[int], width: int) -> Sequence[float]:
    """Share a width out by count, each at least _LEAST; what the small ones take is missing from the others."""
    total = sum(counts)
    if not total:
        return []
    is_small = [count * width < _LEAST * total for count in counts]
    rest = width - _LEAST * sum(is_small)
    large = sum(count for count, small in zip(counts, is_small, strict=True) if not small)
    return [_LEAST if small else count * rest / large for count, small in zip(counts, is_small, strict=True)]


_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span_words(seconds: float) -> str:
    """Say a time in its largest fitting unit."""
    for size, unit in _STEPS:
        if seconds >= 2 * size or (unit == "min" and seconds >= size):
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"
