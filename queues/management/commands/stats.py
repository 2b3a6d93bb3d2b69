"""`manage.py stats [--json]`: what is in the sources and what has flowed through them."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from queues.stats import Stats, stats
from queues.store.counts import SourceStats
from queues.words.sources import SHORT_NAMES


class Command(BaseCommand):
    help = "Show what is in the sources and what has flowed through them, exactly, at one moment."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="as one JSON object; ages in seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        found = stats()
        self.stdout.write(json.dumps(_object(found), indent=2) if options["json"] else "\n".join(_table(found)))


def _object(found: Stats) -> dict[str, Any]:
    return {
        "at": found.at.isoformat(),
        "adds_up": found.adds_up,
        "sources": {SHORT_NAMES[source.source]: _measures(source) for source in found.sources},
    }


def _measures(source: SourceStats) -> dict[str, Any]:
    """Return the measures: sent + returned = depth + succeeded + died + removed, and depth is the sum of its parts."""
    flow, present = source.flow, source.present
    return {
        "sent": flow.sent,
        "returned": flow.returned,
        "succeeded": flow.succeeded,
        "died": flow.died,
        "dead": flow.dead,
        "removed": flow.removed,
        "depth": flow.depth,
        "waiting": present.waiting,
        "delayed": present.delayed,
        "held": present.held,
        "stopped": present.stopped,
        "in_flight": present.in_flight,
        "processed": present.processed,
        "oldest_seconds": None if source.oldest_seconds is None else round(source.oldest_seconds, 3),
        "circuits_open": source.circuits_open,
        "pauses": source.pauses,
        "adds_up": source.adds_up,
    }


def _table(found: Stats) -> list[str]:
    """Return lines of a table with a column for each source, numbers to the right."""
    columns = [_measures(source) for source in found.sources]
    names = [name.replace("_", " ") for name in columns[0]]
    rows = [
        ["", *(SHORT_NAMES[source.source] for source in found.sources)],
        *(
            [name, *cells]
            for name, *cells in zip(names, *([_cell(v) for v in c.values()] for c in columns), strict=True)
        ),
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def _cell(value: bool | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}"
