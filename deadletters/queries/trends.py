"""When a group's letters died, by hour or by day, with the builds that came out meanwhile."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deadletters.models import Generation
from deadletters.queries import counts
from deadletters.queries.counts import Fingerprint
from deadletters.words.charts import DAY, HOUR, Axis, Bars, Bucket, Mark, bars

WIDTH, HEIGHT = 720, 180
MAX_MARKS = 12


@dataclass(frozen=True, kw_only=True)
class Span:
    """How far a trend goes back, and in which steps."""

    name: str
    label: str
    step: timedelta
    steps: int

    def axis(self, now: datetime) -> Axis:
        """Return the steps that end with the present one; days are those of UTC."""
        start = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        start = start.replace(hour=0) if self.step == DAY else start
        return Axis(start=start - (self.steps - 1) * self.step, step=self.step, steps=self.steps)


SPANS: Mapping[str, Span] = {
    span.name: span
    for span in (
        Span(name="24h", label="24 hours", step=HOUR, steps=24),
        Span(name="7d", label="7 days", step=HOUR, steps=7 * 24),
        Span(name="30d", label="30 days", step=DAY, steps=30),
    )
}


def chosen(name: str, last_seen_at: datetime, *, now: datetime) -> Span:
    """Return the span of a name; for one that is not known the shortest that shows the last death."""
    spans = list(SPANS.values())
    reaching = (span for span in spans if span.axis(now).start <= last_seen_at)
    return SPANS.get(name) or next(reaching, spans[-1])


def of_fingerprints(fingerprints: Sequence[Fingerprint], span: Span, *, now: datetime) -> Bars:
    """Return the chart of deaths by build."""
    axis = span.axis(now)
    deaths = counts.deaths_since(fingerprints, axis.start)
    buckets = [Bucket(at=death.hour, counts={death.generation or "–": death.n}) for death in deaths]
    return bars(buckets, axis, width=WIDTH, height=HEIGHT, marks=_builds_since(axis.start))


def chart(deaths: Iterable[Bucket], axis: Axis, marks: Iterable[Mark]) -> Bars:
    """Return the chart of deaths that were read."""
    return bars(deaths, axis, width=WIDTH, height=HEIGHT, marks=marks)


def of_all(span: Span, *, now: datetime) -> Bars:
    """Return the chart of all deaths by build."""
    axis = span.axis(now)
    deaths = counts.all_deaths_since(axis.start)
    buckets = [Bucket(at=hour, counts={generation or "–": n}) for hour, generation, n in deaths]
    return chart(buckets, axis, _builds_since(axis.start))


def _builds_since(since: datetime) -> Sequence[Mark]:
    builds = Generation.objects.filter(first_seen_at__gte=since).order_by("-first_seen_at")[:MAX_MARKS]
    return [Mark(at=generation.first_seen_at, label=generation.build) for generation in builds]
