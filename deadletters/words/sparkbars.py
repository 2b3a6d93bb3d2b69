"""The geometry of a small chart of deaths by hour, split by build, that the server draws."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deadletters.words.charts import HOUR, OTHERS, Axis, summary_of

MAX_BUILDS = 4
"""Builds of one chart that are told apart; the smaller ones are one more, OTHERS."""
GAP = 1
"""Units between two bars."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One build's parts of the bars, as the path of an SVG; `index` picks its colour."""

    build: str
    index: int
    count: int
    path: str


@dataclass(frozen=True, kw_only=True)
class SparkBars:
    """Stacked bars without axes, `width` x `height` units. `summary`: the text alternative."""

    width: int
    height: int
    layers: Sequence[Layer]
    total: int
    summary: str


def sparkbars(hours: Sequence[Mapping[str, int]], *, width: int, height: int, ends_at: datetime) -> SparkBars:
    """Draw counts by build, one for each hour, the last of which begins at `ends_at`."""
    totals = [sum(max(number, 0) for number in counts.values()) for counts in hours]
    names = _names(hours)
    folded = {place: _folded(counts, names) for place, counts in enumerate(hours) if counts}
    bar = width / max(len(hours), 1)
    layers = _layers(folded, names, bar=bar, height=height, peak=max(totals, default=0))
    said = summary_of(totals, Axis(start=ends_at - (len(hours) - 1) * HOUR, step=HOUR, steps=len(hours)))
    builds = ", ".join(f"{layer.build} {layer.count:,}" for layer in layers)
    summary = f"{said}; on {builds}" if len(layers) > 1 else said
    return SparkBars(width=width, height=height, layers=layers, total=sum(totals), summary=summary)


def _names(hours: Sequence[Mapping[str, int]]) -> Sequence[str]:
    """Return the builds that are told apart, in the order of their first appearance."""
    totals: Counter[str] = Counter()
    for counts in hours:
        for name, number in counts.items():
            totals[name] += number
    largest = {name for name, _ in totals.most_common(MAX_BUILDS)}
    names = [name for name, number in totals.items() if number > 0 and name in largest]
    return names if len(totals) <= MAX_BUILDS else [*names, OTHERS]


def _folded(counts: Mapping[str, int], names: Sequence[str]) -> Counter[str]:
    folded: Counter[str] = Counter()
    for name, number in counts.items():
        folded[name if name in names else OTHERS] += max(number, 0)
    return folded


def _layers(
    hours: Mapping[int, Counter[str]], names: Sequence[str], *, bar: float, height: int, peak: int
) -> Sequence[Layer]:
    bases = dict.fromkeys(hours, float(height))
    layers = []
    for index, name in enumerate(names):
        path = []
        for place, counts in hours.items():
            if number := counts[name]:
                size = max(number / peak * height, 1.5)
                bases[place] -= size
                path.append(
                    f"M{place * bar:.1f} {max(bases[place], 0):.1f}h{bar - GAP:.1f}v{size:.1f}h-{bar - GAP:.1f}z"
                )
        count = sum(counts[name] for counts in hours.values())
        layers.append(Layer(build=name, index=index, count=count, path="".join(path)))
    return layers
