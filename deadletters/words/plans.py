"""How a recovery run goes about it: what it sends first, how fast, and when it stops itself."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

from deadletters.words.errors import BadPlan

MAX_CANARY = 1_000
MAX_RAMP = 1_000.0
MAX_RATE = 100_000.0
MAX_IN_FLIGHT = 100_000
MAX_DEADLINE_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run; raises BadPlan for a value that it cannot have.

    canary: letters that are sent first and answered before any other, 0 = none. ramp: each further wave is so many
    times the one before, 0 = all the others in one. rate: letters per second, None = no limit. in_flight: most that
    are sent without an answer, so that live messages are not starved. The run stops itself when at least
    `stop_failures` failed and they are `stop_share` of the answered; a canary at that share alone; None = never.
    deadline_seconds: after which a letter gave no answer. include_held: send what a person holds, too.
    """

    canary: int = 5
    ramp: float = 4.0
    rate: float | None = None
    in_flight: int = 1_000
    stop_failures: int | None = 10
    stop_share: float = 0.2
    deadline_seconds: int = 3600
    include_held: bool = False
    starts_at: datetime | None = None

    def __post_init__(self) -> None:
        _check_whole("canary", self.canary, 0, MAX_CANARY)
        _check("ramp", self.ramp == 0 or 1 <= self.ramp <= MAX_RAMP, f"must be 0 or from 1 to {MAX_RAMP:g}")
        _check("rate", self.rate is None or 0.001 <= self.rate <= MAX_RATE, f"must be from 0.001 to {MAX_RATE:g}")
        _check_whole("in_flight", self.in_flight, 1, MAX_IN_FLIGHT)
        if self.stop_failures is not None:
            _check_whole("stop_failures", self.stop_failures, 1, 1_000_000)
        _check("stop_share", 0 < self.stop_share <= 1, "must be more than 0 and at most 1")
        _check_whole("deadline_seconds", self.deadline_seconds, 1, MAX_DEADLINE_SECONDS)
        if self.starts_at is not None and self.starts_at.tzinfo is None:
            raise BadPlan("starts_at", "must be a time with a zone")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `as_json` wrote, or a part of it; raises BadPlan for a name or a value that is not known."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise BadPlan(unknown[0], "is not part of a plan")
        plain = {name: value for name, value in values.items() if name != "starts_at"}
        for name, value in plain.items():
            _check_kind(name, value)
        return cls(**plain, starts_at=_moment(values.get("starts_at")))

    def as_json(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"starts_at": self.starts_at.isoformat() if self.starts_at else None}

    def without_stops(self) -> Self:
        """Return the plan for letters of many faults: no canary could speak for them."""
        return replace(self, canary=0, ramp=0, stop_failures=None)

    def limit_of_wave(self, wave: int) -> int | None:
        """Return how many letters may have been sent up to the end of a wave, 0 = the canary; None = all."""
        if self.canary == 0:
            return None
        if wave > 0 and self.ramp == 0:
            return None
        size, total = float(self.canary), float(self.canary)
        for _ in range(min(wave, 60)):
            size *= self.ramp
            total += size
        return int(min(total, 1e15))

    def stops(self, *, failed: int, answered: int, is_canary: bool) -> bool:
        """Say whether a run stops itself that has so many answers, so many of them failures."""
        if self.stop_failures is None or not answered or not failed:
            return False
        return failed / answered >= self.stop_share and (is_canary or failed >= self.stop_failures)

    def words(self) -> str:
        """Say the plan in English."""
        said = [
            f"{self.canary:,} first" if self.canary else "no canary",
            f"then waves {self.ramp:g} times as large" if self.canary and self.ramp else "",
            f"{self.rate:g} a second" if self.rate else "",
            f"at most {self.in_flight:,} unanswered",
            f"stops at {self.stop_failures:,} failures that are {self.stop_share:.0%} of the answers"
            if self.stop_failures
            else "never stops itself",
            f"no answer after {self.deadline_seconds:,} s",
            "with those that a person holds" if self.include_held else "",
        ]
        return ", ".join(part for part in said if part)


def _check(field: str, is_good: bool, problem: str) -> None:
    if not is_good:
        raise BadPlan(field, problem)


def _check_whole(field: str, value: int, least: int, most: int) -> None:
    _check(field, least <= value <= most, f"must be a whole number from {least:,} to {most:,}")


_WHOLE = ("canary", "in_flight", "stop_failures", "deadline_seconds")
_OPTIONAL = ("rate", "stop_failures")


def _check_kind(name: str, value: object) -> None:
    if value is None and name in _OPTIONAL:
        return
    if name == "include_held":
        _check(name, isinstance(value, bool), "must be true or false")
        return
    kinds = int if name in _WHOLE else (int, float)
    wanted = "a whole number" if name in _WHOLE else "a number"
    _check(name, isinstance(value, kinds) and not isinstance(value, bool) and value == value, f"must be {wanted}")


def _moment(text: object) -> datetime | None:
    if text is None or text == "":
        return None
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        raise BadPlan("starts_at", "must be a time such as 2026-01-31T12:00+00:00") from None
