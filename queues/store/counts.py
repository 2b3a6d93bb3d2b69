"""What is in each source, beside its flow: both of one moment, since one statement reads them."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db import connection

from queues.store.flows import Flow
from queues.words.sources import OUTBOX, SOURCES


@dataclass(frozen=True, kw_only=True)
class Present:
    """The rows of one source by what they wait for; each is counted once.

    `in_flight`: under a lease; of a leased stream only its head, since those behind it wait for a worker as others do.
    `processed`: left in the table by a foreign drainer that was done with them.
    """

    waiting: int
    delayed: int
    held: int
    stopped: int
    in_flight: int
    processed: int

    @property
    def rows(self) -> int:
        return self.waiting + self.delayed + self.held + self.stopped + self.in_flight + self.processed


@dataclass(frozen=True, kw_only=True)
class SourceStats:
    """One source at one moment. `oldest_seconds`: how long the longest waiting row is due; None = none waits."""

    source: str
    at: datetime
    flow: Flow
    present: Present
    oldest_seconds: float | None
    circuits_open: int
    pauses: int

    @property
    def adds_up(self) -> bool:
        """Whether the flow comes to the rows that were counted."""
        return self.flow.depth == self.present.rows


_FLOWS = [field.name for field in fields(Flow)]
_KINDS = [field.name for field in fields(Present)]

_TABLES = " UNION ALL ".join(
    f"SELECT '{source}', {', '.join(_KINDS)}, oldest FROM count_{source}()"  # noqa: S608 - names of ours
    for source in SOURCES
)
_READ = f"""
SELECT c.source, statement_timestamp(), {", ".join(f"coalesce(f.{name}, 0)" for name in _FLOWS)},
       {", ".join(f"c.{name}" for name in _KINDS)}, extract(epoch FROM statement_timestamp() - c.oldest)::float8,
       (SELECT count(*) FROM destination_circuits d WHERE c.source = '{OUTBOX}' AND d.state <> 'closed'),
       (SELECT count(*) FROM source_pauses p
         WHERE p.source = c.source AND (p.until IS NULL OR p.until > statement_timestamp()))
  FROM ({_TABLES}) c(source, {", ".join(_KINDS)}, oldest) LEFT JOIN source_flows() f ON f.source = c.source
"""  # noqa: S608 - names of ours


def read() -> list[SourceStats]:
    """Read all sources at one moment, their tables whole."""
    with connection.cursor() as cursor:
        cursor.execute(_READ)
        found = {row[0]: _of(*row) for row in cursor.fetchall()}
    return [found[source] for source in SOURCES]


def _of(source: str, at: datetime, *values: Any) -> SourceStats:
    flow, (*present, oldest, circuits, pauses) = values[: len(_FLOWS)], values[len(_FLOWS) :]
    return SourceStats(
        source=source,
        at=at,
        flow=Flow(**dict(zip(_FLOWS, flow, strict=True))),
        present=Present(**dict(zip(_KINDS, present, strict=True))),
        oldest_seconds=oldest,
        circuits_open=circuits,
        pauses=pauses,
    )
