"""What is in the sources and what has flowed through them: exact, and it adds up."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from queues.store import counts
from queues.store.counts import Present
from queues.store.flows import Flow, flows
from queues.words.sources import SOURCES

COUNTED_ROWS = 50_000
"""A deeper source is not counted row by row for a page."""


@dataclass(frozen=True, kw_only=True)
class SourceStats:
    """One source at one moment. `present` is None where its rows were not counted."""

    source: str
    flow: Flow
    present: Present | None
    oldest_seconds: float | None
    """How long the longest waiting message is due; None = none waits."""
    circuits_open: int
    pauses: int

    @property
    def adds_up(self) -> bool:
        """Whether the flow comes to the rows that were counted; not asked where none were."""
        return self.present is None or self.flow.depth == self.present.rows


@dataclass(frozen=True, kw_only=True)
class Stats:
    """All sources at one moment, in a fixed order."""

    at: datetime
    sources: tuple[SourceStats, ...]

    @property
    def adds_up(self) -> bool:
        return all(source.adds_up for source in self.sources)


def depths() -> Mapping[str, int]:
    """Return how many messages each source has, exactly, at a cost that does not depend on it."""
    return {source: flow.depth for source, flow in flows().items()}


def stats() -> Stats:
    """Return the sources with all their rows counted: reads the work tables whole."""
    return _stats(counting=SOURCES)


def glance() -> Stats:
    """Return the sources at a bounded cost: depths are exact, the rows of a deep source are not counted."""
    return _stats(counting=[source for source, depth in depths().items() if depth <= COUNTED_ROWS])


def _stats(*, counting: Collection[str]) -> Stats:
    found = counts.read(counting=counting)
    at = next(iter(found.values())).at
    return Stats(at=at, sources=tuple(_source(source, found[source]) for source in SOURCES))


def _source(source: str, reading: counts.Reading) -> SourceStats:
    return SourceStats(
        source=source,
        flow=reading.flow,
        present=reading.present,
        oldest_seconds=reading.oldest_seconds,
        circuits_open=reading.circuits_open,
        pauses=reading.pauses,
    )
