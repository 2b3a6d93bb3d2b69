"""The geometry of charts that the server draws, and what they show in words.

Coordinates are texts in SVG's notation, y downwards: a template would write numbers in the reader's language.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate, count, pairwise

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

MAX_SERIES = 5
"""Series of a chart that are told apart; the smaller ones are one more, OTHERS."""
OTHERS = "others"

GUTTER = 40
"""Units at the left for the labels of the y ticks."""
FOOT = 18
"""Units at the bottom for the labels of the x ticks."""
HEAD = 8
"""Units at the top, for half a label."""

_MAX_Y_TICKS = 4
_MAX_X_TICKS = 8
_ROUND_TIMES = (
    *(timedelta(minutes=minutes) for minutes in (1, 5, 10, 15, 30)),
    *(timedelta(hours=hours) for hours in (1, 2, 3, 6, 12)),
    *(timedelta(days=days) for days in (1, 2, 7, 14, 30)),
)
_SHORT = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """A small line without axes, `width` x `height` units.

    `points`: "x,y x,y …" for a polyline; `area`: the path of what lies below it; both empty without counts.
    `end`: the last point as (x, y). `summary`: the text alternative.
    """

    width: int
    height: int
    points: str
    area: str
    end: tuple[str, str]
    peak: int
    total: int
    summary: str


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Counts by series of the step of time that begins at `at`."""

    at: datetime
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment worth a line across the chart, such as a deploy."""

    at: datetime
    label: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The steps of time that a chart shows: `steps` of them from `start` on, which knows its zone."""

    start: datetime
    step: timedelta
    steps: int

    def at(self, index: int) -> datetime:
        return self.start + index * self.step

    @property
    def span(self) -> timedelta:
        return self.steps * self.step


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The part of a bar that belongs to the series with number `index`."""

    series: str
    index: int
    count: int
    y: str
    height: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One step of time; `segments` from the bottom up, none of them empty. `label` says it in words."""

    at: datetime
    x: str
    width: str
    total: int
    label: str
    segments: Sequence[Segment]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A label on an axis: `place` is y on the y axis, x on the x axis."""

    place: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A mark on the chart."""

    x: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A chart of stacked bars, `width` x `height` units, the bars between `left`, `top`, `right` and `bottom`.

    `series` in the order of their numbers; `y_ticks` begin with 0; `summary`: the text alternative.
    """

    width: int
    height: int
    left: str
    top: str
    right: str
    bottom: str
    bars: Sequence[Bar]
    series: Sequence[str]
    y_ticks: Sequence[Tick]
    x_ticks: Sequence[Tick]
    marks: Sequence[Line]
    peak: int
    total: int
    summary: str


def sparkline(
    counts: Sequence[int], *, width: int, height: int, ends_at: datetime, step: timedelta = HOUR
) -> Sparkline:
    """Return the line of counts, one for each step of time, the last of which begins at `ends_at`."""
    shown = [max(number, 0) for number in counts]
    peak = max(shown, default=0)
    ys = [_number(height - 1 - _share(number, peak) * (height - 2)) for number in shown]
    if len(ys) == 1:
        ys *= 2
    xs = [_number(width * place / max(len(ys) - 1, 1)) for place in range(len(ys))]
    points = " ".join(f"{x},{y}" for x, y in zip(xs, ys, strict=True))
    start = ends_at - max(len(shown) - 1, 0) * step
    return Sparkline(
        width=width,
        height=height,
        points=points,
        area=f"M0,{height} L{points.replace(' ', ' L')} L{width},{height} Z" if points else "",
        end=(xs[-1], ys[-1]) if points else ("0", _number(height)),
        peak=peak,
        total=sum(shown),
        summary=summary_of(shown, Axis(start=start, step=step, steps=len(shown))),
    )


@dataclass(frozen=True, kw_only=True)
class _Plot:
    """Where on the chart a moment and a count are; `top_count` is that of the highest y tick."""

    axis: Axis
    width: int
    height: int
    top_count: int
    bottom: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bottom", self.height - FOOT)

    def x(self, at: datetime) -> float:
        return GUTTER + (self.width - GUTTER) * ((at - self.axis.start) / self.axis.span)

    def y(self, number: int) -> float:
        return self.bottom - self.rise(number)

    def rise(self, number: int) -> float:
        """Return how high a count is; one that is not nothing can be seen."""
        return max(_share(number, self.top_count) * (self.bottom - HEAD), 1.0 if number else 0.0)


def bars(buckets: Iterable[Bucket], axis: Axis, *, width: int, height: int, marks: Iterable[Mark] = ()) -> Bars:
    """Return the chart of buckets along an axis; what lies outside of it is left out, a step without a bucket is 0.

    Buckets of one step are added. Series are numbered by their first appearance; of more than MAX_SERIES the
    smallest are shown as OTHERS.
    """
    by_step = _by_step(buckets, axis)
    series = _series(by_step)
    folded = [_folded(counts, series) for counts in by_step]
    totals = [sum(counts.values()) for counts in folded]
    y_ticks = _nice_ticks(max(totals, default=0))
    plot = _Plot(axis=axis, width=width, height=height, top_count=y_ticks[-1])
    return Bars(
        width=width,
        height=height,
        left=_number(GUTTER),
        top=_number(HEAD),
        right=_number(width),
        bottom=_number(plot.bottom),
        bars=[_bar(place, counts, series, plot) for place, counts in enumerate(folded)],
        series=series,
        y_ticks=[
            Tick(place=_number(plot.bottom - _share(n, y_ticks[-1]) * (plot.bottom - HEAD)), label=_short(n))
            for n in y_ticks
        ],
        x_ticks=_x_ticks(plot),
        marks=_lines(marks, plot),
        peak=max(totals, default=0),
        total=sum(totals),
        summary=summary_of(totals, axis),
    )


def _by_step(buckets: Iterable[Bucket], axis: Axis) -> Sequence[Counter[str]]:
    by_step: list[Counter[str]] = [Counter() for _ in range(axis.steps)]
    for bucket in buckets:
        place = (bucket.at - axis.start) // axis.step
        if 0 <= place < axis.steps:
            by_step[place].update({name: max(number, 0) for name, number in bucket.counts.items()})
    return by_step


def _series(by_step: Sequence[Counter[str]]) -> Sequence[str]:
    """Return the names that are told apart, in the order of their first appearance, OTHERS last."""
    totals: Counter[str] = Counter()
    for counts in by_step:
        totals.update(counts)
    names = [name for name, number in totals.items() if number]
    if len(names) <= MAX_SERIES:
        return names
    largest = {name for name, _ in totals.most_common(MAX_SERIES)}
    return [*(name for name in names if name in largest), OTHERS]


def _folded(counts: Counter[str], series: Sequence[str]) -> Counter[str]:
    folded: Counter[str] = Counter()
    for name, number in counts.items():
        folded[name if name in series else OTHERS] += number
    return folded


def _bar(place: int, counts: Counter[str], series: Sequence[str], plot: _Plot) -> Bar:
    at, total = plot.axis.at(place), counts.total()
    left, right = plot.x(at), plot.x(plot.axis.at(place + 1))
    gap = min(1.0, (right - left) / 4)
    shown = [(index, name, counts[name]) for index, name in enumerate(series) if counts[name]]
    heights = [_share(sofar, total) * plot.rise(total) for sofar in accumulate((n for *_, n in shown), initial=0)]
    segments = [
        Segment(series=name, index=index, count=number, y=_number(plot.bottom - above), height=_number(above - below))
        for (index, name, number), (below, above) in zip(shown, pairwise(heights), strict=True)
    ]
    parts = ", ".join(f"{name} {number:,}" for _, name, number in shown)
    label = f"{_time(at, plot.axis)}: {total:,}" + (f" ({parts})" if len(shown) > 1 else "")
    return Bar(at=at, x=_number(left), width=_number(right - left - gap), total=total, label=label, segments=segments)


def _lines(marks: Iterable[Mark], plot: _Plot) -> Sequence[Line]:
    end = plot.axis.start + plot.axis.span
    shown = sorted((mark for mark in marks if plot.axis.start <= mark.at < end), key=lambda mark: mark.at)
    return [
        Line(x=_number(plot.x(mark.at)), label=f"{mark.label}, {mark.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
        for mark in shown
    ]


def _nice_ticks(peak: int) -> Sequence[int]:
    """Return few whole numbers from 0 to at least the peak, 1, 2 or 5 times a power of ten apart."""
    candidates = (factor * 10**power for power in count() for factor in (1, 2, 5))
    step = next(size for size in candidates if size * _MAX_Y_TICKS >= peak)
    last = max(-(-peak // step), 1)
    return [step * number for number in range(last + 1)]


def _x_ticks(plot: _Plot) -> Sequence[Tick]:
    """Return labels at round times, _MAX_X_TICKS at most; of more than two days they are the days'."""
    axis = plot.axis
    apart = _apart(axis)
    shape = "%m-%d" if apart >= DAY else "%H:%M"
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    moments = [axis.at(place) for place in range(axis.steps)]
    return [
        Tick(place=_number(plot.x(at)), label=at.astimezone(UTC).strftime(shape))
        for at in moments
        if (at - epoch) // axis.step % (apart // axis.step) == 0
    ]


def _apart(axis: Axis) -> timedelta:
    least = max(axis.step, DAY if axis.span > 2 * DAY else axis.step)
    fitting = (time for time in _ROUND_TIMES if time >= least and time * _MAX_X_TICKS >= axis.span)
    return next(fitting, max(axis.span, axis.step))


def summary_of(totals: Sequence[int], axis: Axis) -> str:
    """Say a chart in words, such as "peak 120 at 03:00 UTC, 340 in 24 h"."""
    span = _span(axis.span)
    peak = max(totals, default=0)
    if not peak:
        return f"none in {span}"
    return f"peak {peak:,} at {_time(axis.at(totals.index(peak)), axis)}, {sum(totals):,} in {span}"


def _span(span: timedelta) -> str:
    if span < HOUR:
        return f"{span // timedelta(minutes=1)} min"
    return f"{span // HOUR} h" if span < 2 * DAY else f"{span // DAY} d"


def _time(at: datetime, axis: Axis) -> str:
    moment = at.astimezone(UTC)
    if axis.step >= DAY:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%H:%M} UTC" if axis.span <= DAY else f"{moment:%Y-%m-%d %H:%M} UTC"


def _share(number: int, whole: int) -> float:
    return number / whole if whole else 0.0


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def _short(number: int) -> str:
    """Write a count in a few characters; ticks are round, so little is lost."""
    if number < 10_000:
        return f"{number:,}"
    size, unit = next((size, unit) for size, unit in _SHORT if number >= size)
    return f"{_number(number / size)}{unit}"
