"""A drain: claim, run and record until the source is empty or the time is up."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import randrange
from uuid import uuid4

import structlog

from queues import instances, perspectives
from queues.conf import conf
from queues.drainer.batch import Batch
from queues.drainer.losses import sweep
from queues.drainer.runners import queues_of
from queues.drainer.runs import drop_session
from queues.drainer.watch import Watch
from queues.runfile import RunFile
from queues.store import claims
from queues.words.outcomes import OutcomeKind
from queues.words.sources import PERSPECTIVES, Queue

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

    at_most: do nothing when so many other processes drain the source already.
    """
    until = None if seconds is None else time.monotonic() + seconds
    counts: Counter[OutcomeKind] = Counter()
    sweep(conf().run_dir)
    if source == PERSPECTIVES:
        perspectives.subscribe()
    if at_most is not None and instances.draining_elsewhere(source) >= at_most:
        return Report()
    instances.beat(draining=source)
    run_file = RunFile(conf().run_dir, instances.current().id, capacity=conf().claim_batch)
    watch = Watch()
    watch.start()
    try:
        more = _drain(source, until, counts, run_file, watch, stopping)
    except BaseException:
        drop_session()
        raise
    finally:
        watch.stop()
        instances.beat(draining=None)
        run_file.close()
    if counts:
        log.info("drained", source=source, **{str(kind): count for kind, count in counts.items()})
    return Report(counts=counts, more=more)


def _drain(
    source: str,
    until: float | None,
    counts: Counter[OutcomeKind],
    run_file: RunFile,
    watch: Watch,
    stopping: Callable[[], bool],
) -> bool:
    """Take batches of the source's queues in turn, so that none starves, until a whole round finds nothing."""
    waiting = deque(queues_of(source))
    waiting.rotate(randrange(len(waiting) or 1))  # noqa: S311 - short drains do not all begin with the same queue
    idle = 0
    while idle < len(waiting):
        if stopping() or (until is not None and time.monotonic() >= until):
            return True
        batch = _claim(waiting[0], run_file, watch, stopping)
        waiting.rotate(-1)
        idle = 0 if batch else idle + 1
        if batch:
            batch.run()
            counts.update(batch.counts)
    return False


def _claim(queue: Queue, run_file: RunFile, watch: Watch, stopping: Callable[[], bool]) -> Batch | None:
    claims.admit(queue, conf().claim_batch * 2)
    token = uuid4()
    rows = claims.claim(
        queue,
        instance_id=instances.current().id,
        token=token,
        limit=conf().claim_batch,
        per_stream=conf().claim_per_stream,
        lease=conf().lease,
    )
    if not rows:
        return None
    return Batch(queue=queue, token=token, rows=rows, run_file=run_file, watch=watch, stopping=stopping)
