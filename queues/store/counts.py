"""What is in each source, beside its flow: both of one moment, since one statement reads them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from django.db import connection

from queues.store.flows import Flow
from queues.words.sources import OUTBOX, SOURCES


@dataclass(frozen=True, kw_only=True)
class Present:
    """The rows of one source by what they wait for; each is counted once.

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
class Reading:
    """A source at one moment. `present` is None where its rows were not counted.

    `oldest_seconds`: how long the longest waiting one is due; None = none waits.
    """

    at: datetime
    flow: Flow
    present: Present | None
    oldest_seconds: float | None
    circuits_open: int
    pauses: int


_FLOWS = [field.name for field in fields(Flow)]
_KINDS = [field.name for field in fields(Present)]

_READ = f"""
SELECT c.source, statement_timestamp(), {", ".join(f"coalesce(f.{name}, 0)" for name in _FLOWS)},
       {", ".join(f"c.{name}" for name in _KINDS)}, extract(epoch FROM statement_timestamp() - c.oldest)::float8,
       (SELECT count(*) FROM destination_circuits d WHERE c.source = '{OUTBOX}' AND d.state <> 'closed'),
       (SELECT count(*) FROM source_pauses p
         WHERE p.source = c.source AND (p.until IS NULL OR p.until > statement_timestamp()))
  FROM ({{tables}}) c(source, {", ".join(_KINDS)}, oldest) LEFT JOIN source_flows() f ON f.source = c.source
"""  # noqa: S608 - names of ours
_COUNTED = f"SELECT '{{0}}', {', '.join(_KINDS)}, oldest FROM count_{{0}}()"  # noqa: S608
_NOT_COUNTED = f"SELECT '{{0}}', {', '.join('NULL::bigint' for _ in _KINDS)}, oldest_{{0}}()"


def read(*, counting: Collection[str]) -> Mapping[str, Reading]:
    """Read all sources at one moment, and count the rows of some, which reads these tables whole."""
    tables = [(_COUNTED if source in counting else _NOT_COUNTED).format(source) for source in SOURCES]
    with connection.cursor() as cursor:
        cursor.execute(_READ.format(tables=" UNION ALL ".join(tables)))
        rows = cursor.fetchall()
    first, second = 2 + len(_FLOWS), 2 + len(_FLOWS) + len(_KINDS)
    return {
        row[0]: Reading(
            at=row[1],
            flow=Flow(**dict(zip(_FLOWS, row[2:first], strict=True))),
            present=Present(**dict(zip(_KINDS, row[first:second], strict=True))) if row[0] in counting else None,
            oldest_seconds=row[second],
            circuits_open=row[second + 1],
            pauses=row[second + 2],
        )
        for row in rows
    }
