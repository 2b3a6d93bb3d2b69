"""How much has flowed through each source: totals and the deltas that wait to be folded into them."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection

from queues.words.sources import SOURCES

FOLD_ROWS = 20_000
"""Deltas that one transaction folds."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Messages of one source since its table was made, as numbers.

    `returned`: sent back from the dead letters. `removed`: gone without a verdict, as by a DELETE by hand.
    """

    sent: int = 0
    returned: int = 0
    succeeded: int = 0
    died: int = 0
    removed: int = 0

    @property
    def depth(self) -> int:
        """Messages that are in the source now."""
        return self.sent + self.returned - self.succeeded - self.died - self.removed

    @property
    def dead(self) -> int:
        """Messages that died and were not sent back; below 0 when letters came back that had not died here."""
        return self.died - self.returned


def flows() -> Mapping[str, Flow]:
    """Return the flow of each source, exactly, at one moment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT source, sent, returned, succeeded, died, removed FROM source_flows()")
        found = {
            source: Flow(sent=sent, returned=returned, succeeded=succeeded, died=died, removed=removed)
            for source, sent, returned, succeeded, died, removed in cursor.fetchall()
        }
    return {source: found.get(source, Flow()) for source in SOURCES}


def fold(at_most: int = 1_000_000) -> int:
    """Fold deltas, in transactions of FOLD_ROWS; return how many there were. No reading depends on it."""
    folded = 0
    while folded < at_most and (eaten := _fold_once()):
        folded += eaten
    return folded


def _fold_once() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT fold_flow_deltas(%s)", [FOLD_ROWS])
        return int(cursor.fetchone()[0])
