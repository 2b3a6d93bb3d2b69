"""What recoveries of a fault came to, by how they were done: what worked last time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

ANSWERS = ("recovered", "failed_again", "failed_differently", "no_answer")
"""How a letter that was sent can end."""

NAMES = {
    "person": "runs by people",
    "schedule": "runs by the schedule",
    "replay": "runs for a new build",
    "single": "letters sent one by one",
}


@dataclass(frozen=True, kw_only=True)
class Try:
    """One recovery: its verb (a key of NAMES), its letters by how they ended, who began it and when."""

    verb: str
    by: str
    at: datetime
    ends: Mapping[str, int] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        return sum(self.ends.get(end, 0) for end in ANSWERS)

    @property
    def recovered(self) -> int:
        return self.ends.get("recovered", 0)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one verb came to: how often it was tried, how many answered letters were handled, by whom last."""

    verb: str
    times: int
    answered: int
    recovered: int
    by: str
    at: datetime

    @property
    def name(self) -> str:
        return NAMES[self.verb]

    @property
    def share(self) -> int:
        """Percent that were handled, rounded down: 100 only where all were."""
        return self.recovered * 100 // self.answered


def results(tries: Iterable[Try]) -> Sequence[Result]:
    """Put tries together by verb, the one that handled the largest share first; a try without an answer is left out."""
    by_verb: dict[str, list[Try]] = {}
    for each in tries:
        if each.answered:
            by_verb.setdefault(each.verb, []).append(each)
    found = [_result(verb, done) for verb, done in by_verb.items()]
    return sorted(found, key=lambda each: (-each.recovered / each.answered, -each.recovered, each.verb))


def _result(verb: str, done: Sequence[Try]) -> Result:
    last = max(done, key=lambda each: each.at)
    return Result(
        verb=verb,
        times=len(done),
        answered=sum(each.answered for each in done),
        recovered=sum(each.recovered for each in done),
        by=last.by,
        at=last.at,
    )
