"""What is in the sources and what has flowed through them: exact, and it adds up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from queues.store import counts
from queues.store.counts import SourceStats
from queues.store.flows import flows


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
    sources = tuple(counts.read())
    return Stats(at=sources[0].at, sources=sources)
