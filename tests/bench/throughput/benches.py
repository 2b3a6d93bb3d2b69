"""Messages a second of drainers, against others that do the same and against floors that promise less.

Every measure lets messages wait first, which is not counted, and has all of them taken. Ours runs in a process of its
own, by the drainer that the product uses, with Django's models and the registry loaded; so do the floors.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from kombu import Connection, Exchange, Queue

from queues.store.events import subscribe
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES
from tests.bench import machine
from tests.bench.harness import Bench, Measure
from tests.bench.rivals import CELERY, PGQUEUER, RELIABLE_OUTBOX, Absent, Kit, rival
from tests.bench.throughput.rows import BARE, DESTINATION, EVENT, NOTHING, PERSPECTIVE, WRITE, fill
from tests.bench.throughput.workers import Workers, workers

CORES = 1.9
"""Worker and server keep so many busy together."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured: messages of a repeat, those of a backlog, of 1 MiB each, seconds of doing nothing
    after those of its start.

    `rivals`: others are installed and measured too.
    """

    messages: int = 20_000
    backlog: int = 2_000_000
    large: int = 200
    started_seconds: float = 10
    idle_seconds: float = 60
    repeats: int = 5
    rivals: bool = True


def inbox_noop(scale: Scale) -> Iterator[Bench]:
    """Yield the bench of a handler that does nothing."""
    with ExitStack() as stack:
        one = stack.enter_context(workers())
        others = {"bare": _rate(one, "claim", scale.messages, partial(fill, BARE))}
        others |= _rivals(stack, scale, {"pgqueuer": PGQUEUER, "celery": CELERY})
        yield _bench("inbox_noop", scale, _rate(one, INBOX, scale.messages, partial(fill, INBOX)), others)


def inbox_write(scale: Scale) -> Iterator[Bench]:
    """Yield the bench of a handler that writes one row by the ORM: against a commit each, ours and one by hand."""
    waiting = partial(fill, INBOX, message_type=WRITE)
    with workers() as one, workers(BENCH_GROUP="1") as apart:
        others = {
            "commit_each": _rate(apart, INBOX, scale.messages, waiting),
            "bare_commit_each": _rate(one, "commit_each", scale.messages, partial(fill, BARE)),
        }
        yield _bench("inbox_write", scale, _rate(one, INBOX, scale.messages, waiting), others)


def outbox_redis(scale: Scale) -> Iterator[Bench]:
    """Yield the bench of publishing to a queue of Celery's broker, by a transport that any broker has."""
    with ExitStack() as stack:
        one = stack.enter_context(workers())
        others = _rivals(stack, scale, {"django-reliable-outbox": RELIABLE_OUTBOX})
        yield _bench("outbox_redis", scale, _rate(one, OUTBOX, scale.messages, _fill_outbox), others)


def perspective_apply(scale: Scale) -> Iterator[Bench]:
    """Yield the bench of applying events, each with its perspective's cursor."""
    subscribe([(PERSPECTIVE, EVENT)])
    waiting = partial(fill, PERSPECTIVES, message_type=EVENT)
    with workers() as one:
        yield _bench("perspective_apply", scale, _rate(one, PERSPECTIVES, scale.messages, waiting), {})


def two_workers(scale: Scale) -> Iterator[Bench]:
    """Yield the bench of two workers against one."""
    waiting = partial(fill, INBOX)
    with workers() as one, workers(2) as two:
        others = {"one_worker": _rate(one, INBOX, scale.messages, waiting)}
        yield _bench("two_workers", scale, _rate(two, INBOX, scale.messages, waiting), others, cores=2.1)


def _bench(name: str, scale: Scale, ours: Measure, others: dict[str, Measure], *, cores: float = CORES) -> Bench:
    return Bench(
        name=name,
        unit="messages/s",
        n=scale.messages,
        ours=ours,
        others=others,
        repeats=scale.repeats,
        cores=cores,
    )


def _rate(some: Workers, what: str, messages: int, waiting: Callable[[int], object]) -> Measure:
    def measure() -> float:
        waiting(messages)
        drained = some.run(what, messages)
        return drained.messages / drained.seconds

    return measure


def _rivals(stack: ExitStack, scale: Scale, kits: dict[str, Kit]) -> dict[str, Measure]:
    """Start rivals, those that can be run here."""
    found: dict[str, Measure] = {}
    for name, kit in kits.items() if scale.rivals else ():
        given = {"broker": settings.CELERY_BROKER_URL if kit is CELERY else _redis_url()}
        try:
            found[name] = stack.enter_context(rival(kit, **given)).measure(str(scale.messages))
        except Absent as exc:
            machine.say(f"left out: {exc}")
    return found


def _fill_outbox(messages: int) -> None:
    """Let messages wait, and empty the queue to which they will go, as its receiver declares it."""
    queue = Queue(DESTINATION, Exchange(DESTINATION), routing_key=DESTINATION)
    with Connection(settings.CELERY_BROKER_URL) as broker:
        queue(broker.channel()).declare()
        queue(broker.channel()).purge()
    fill(OUTBOX, messages, message_type=NOTHING)


def _redis_url() -> str:
    """Return the broker's URL as redis-py spells it."""
    return str(settings.CELERY_BROKER_URL).replace("redis+socket://", "unix://")
