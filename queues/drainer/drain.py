"""A drain: claim, run and record until the source is empty or the time is up."""

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import randrange
from uuid import UUID, uuid4

import structlog

from queues import instances, perspectives, reactions
from queues.conf import conf
from queues.drainer.batch import Batch
from queues.drainer.lanes import Lanes
from queues.drainer.losses import sweep
from queues.drainer.runners import queues_of
from queues.drainer.runs import drop_session
from queues.drainer.watch import Watch
from queues.runfile import RunFile
from queues.store import claims
from queues.store.claims import Claimed
from queues.words.outcomes import OutcomeKind
from queues.words.sources import INBOX, PERSPECTIVES, SOURCES

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a drain did. `more`: it stopped while messages were due."""

    counts: Counter[OutcomeKind] = field(default_factory=Counter)
    more: bool = False

    @property
    def messages(self) -> int:
        return self.counts.total()


def drain(
    source: str,
    *,
    seconds: float | None,
    at_most: int | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Report:
    """Drain the source for at most `seconds` (None = until nothing is due), or until asked to stop.

    at_most: do nothing when so many other processes drain the source already. Raises ValueError for no source.
    """
    if source not in SOURCES:
        raise ValueError(f"{source} is no source; one of {', '.join(SOURCES)} is drained")
    place = _Place(source, at_most)
    sweep(conf().run_dir)
    if source == PERSPECTIVES:
        perspectives.subscribe()
    if source == INBOX:
        reactions.subscribe()
    counts: Counter[OutcomeKind] = Counter()
    with _ALONE:
        if not place.take():
            return Report()
        with _at_work(place) as (run_file, watch):
            until = math.inf if seconds is None else time.monotonic() + seconds
            must_stop = partial(_must_stop, stopping, until)
            claim = partial(_claim, run_file=run_file, watch=watch, stopping=stopping, must_stop=must_stop)
            more = _drain(claim, place, counts, must_stop)
    if counts:
        log.info("drained", source=source, **{str(kind): count for kind, count in counts.items()})
    return Report(counts=counts, more=more)


_ALONE = threading.Lock()
"""A process notes one run at a time, so drains in threads of one process take turns."""


class _Place:
    """The drain's place among those of its source."""

    def __init__(self, source: str, at_most: int | None) -> None:
        self.source, self._at_most = source, at_most
        self.is_taken = False

    def take(self) -> bool:
        """Return whether this drain has a place, taking one unless it has."""
        self.is_taken = self.is_taken or instances.take_place(self.source, self._at_most)
        return self.is_taken

    def give_up(self) -> None:
        instances.give_up_place()
        self.is_taken = False


@contextmanager
def _at_work(place: _Place) -> Iterator[tuple[RunFile, Watch]]:
    """Note and watch what runs. After an error what could not be settled is left to the next sweep."""
    run_file = RunFile(conf().run_dir, instances.current().id, capacity=conf().claim_batch)
    watch = Watch()
    watch.start()
    try:
        yield run_file, watch
        watch.stop()
        if place.is_taken:
            place.give_up()
    except BaseException:
        watch.stop()
        drop_session()
        run_file.leave()
        raise
    run_file.close()


def _drain(
    claim: Callable[[Lanes], Batch | None], place: _Place, counts: Counter[OutcomeKind], must_stop: Callable[[], bool]
) -> bool:
    """Take batches of the source's queues in turn, so that none starves, until a whole round finds nothing.

    The last round goes without a place: a wake-up that still found all places taken has ended, and what was sent
    with it is found by this round, since it was committed before the place was given up. Returns whether
    messages may be due still.
    """
    waiting = deque(Lanes(queue) for queue in queues_of(place.source))
    waiting.rotate(randrange(len(waiting) or 1))  # noqa: S311 - short drains do not all begin with the same queue
    idle = 0
    while waiting:
        if must_stop():
            return True
        batch = claim(waiting[0])
        waiting.rotate(-1)
        if batch is not None:
            idle = 0
            if not place.take():
                batch.give_back()
                return True
            batch.run()
            counts.update(batch.counts)
        elif (idle := idle + 1) == len(waiting):
            if not place.is_taken:
                return False
            place.give_up()
            idle = 0
    return False


def _must_stop(stopping: Callable[[], bool], until: float) -> bool:
    return stopping() or time.monotonic() >= until


def _claim(
    lanes: Lanes,
    *,
    run_file: RunFile,
    watch: Watch,
    stopping: Callable[[], bool],
    must_stop: Callable[[], bool],
) -> Batch | None:
    """Claim a batch, or return None when nothing is due."""
    token = uuid4()
    run_file.claiming(lanes.queue, token)
    rows = _first_rows(lanes, token, must_stop)
    if not rows and lanes.renewed():
        rows = _rows(lanes, token, lanes.due())
    if not rows:
        return None
    return Batch(queue=lanes.queue, token=token, rows=rows, run_file=run_file, watch=watch, stopping=stopping)


def _first_rows(lanes: Lanes, token: UUID, must_stop: Callable[[], bool]) -> list[Claimed] | None:
    """Claim, passing by a crowd of streams that may not run now, or that have still to be admitted."""
    limit = conf().claim_batch * 2
    while True:
        has_more = claims.admit(lanes.queue, limit) == limit
        rows = _rows(lanes, token, lanes.due())
        if rows or must_stop() or (rows is not None and not has_more):
            return rows


def _rows(lanes: Lanes, token: UUID, due: Sequence[str]) -> list[Claimed] | None:
    return claims.claim(
        lanes.queue,
        instance_id=instances.current().id,
        token=token,
        limit=conf().claim_batch,
        per_stream=conf().claim_per_stream,
        lease=conf().lease,
        generation=conf().generation,
        lanes=due,
    )
