"""Measures one thing against others, turn by turn, on a machine that is idle otherwise."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median

from tests.bench import machine

REPEATS = 9
REDONE = 5
"""A bench redoes so many disturbed repeats at most."""

Measure = Callable[[], float]
"""Prepares, measures once, and returns the value."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One thing to measure, and what it is measured against.

    `unit`: that of what the measures return; `n`: rows, items or messages of one call; `cores`: as many as a repeat
    keeps busy itself, on both sides of the database's socket; `is_warm`: its first time is like any other, or it
    brings its own.
    """

    name: str
    unit: str
    n: int
    ours: Measure
    others: Mapping[str, Measure] = field(default_factory=dict)
    repeats: int = REPEATS
    cores: float = 1.5
    is_warm: bool = False


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line of output; `ratio`: the median of ours / the other's, of repeats that ran side by side."""

    name: str
    median: float
    unit: str
    n: int
    repeats: int
    against: str | None
    ratio: float | None

    def line(self) -> str:
        """Return the result as a line of JSON."""
        return json.dumps(asdict(self))


def run(bench: Bench, *, patience_seconds: float) -> Iterator[Result]:
    """Measure, and yield a result for each other side, or one without."""
    sides = {"": bench.ours, **bench.others}
    for measure in () if bench.is_warm else sides.values():
        measure()  # plans, caches and files of the first time are nobody's
    rounds: list[dict[str, float]] = []
    redone = 0
    while len(rounds) < bench.repeats:
        values, is_disturbed = _round(bench, sides, backwards=bool(len(rounds) % 2), patience_seconds=patience_seconds)
        if is_disturbed and redone < REDONE and patience_seconds:
            redone += 1
            continue
        rounds.append(values)
    ours = median(values[""] for values in rounds)
    for name in bench.others or [None]:
        ratio = None if name is None else round(median(values[""] / values[name] for values in rounds), 3)
        yield Result(
            name=bench.name,
            median=round(ours, 4 if ours < 100 else 0),
            unit=bench.unit,
            n=bench.n,
            repeats=len(rounds),
            against=name,
            ratio=ratio,
        )


def _round(
    bench: Bench, sides: Mapping[str, Measure], *, backwards: bool, patience_seconds: float
) -> tuple[dict[str, float], bool]:
    if not machine.wait_until_idle(patience_seconds):
        machine.say(f"{bench.name}: the machine is not idle; measured all the same.")
    order = list(sides.items())
    before = machine.read()
    values = {name: measure() for name, measure in (reversed(order) if backwards else order)}
    cores = machine.read().cores_since(before)
    if cores > bench.cores:
        machine.say(f"{bench.name}: disturbed, {cores:.1f} cores were busy.")
    return values, cores > bench.cores
