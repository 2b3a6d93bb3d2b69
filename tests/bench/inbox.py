"""Messages a second that one drainer takes from the inbox."""

import time
from collections.abc import Iterator

from queues.drainer import drain
from queues.sending import send_many
from queues.words.handlers import registry
from queues.words.messages import NewMessage
from tests.bench.harness import Bench

MESSAGES = 20_000


def noop() -> Iterator[Bench]:
    """Yield the bench of a handler that does nothing."""
    yield Bench(name="inbox_noop", unit="messages/s", n=MESSAGES, ours=_drained, repeats=5, cores=1.7)


def _drained() -> float:
    with registry.scratch() as handlers:
        handlers("bench.Nothing")(lambda message: None)
        for _ in range(MESSAGES // 1000):
            send_many([NewMessage(type="bench.Nothing", payload={"order_id": n}) for n in range(1000)])
        started = time.perf_counter()
        drained = drain("wh_inbox", seconds=None).messages
        seconds = time.perf_counter() - started
    if drained != MESSAGES:
        raise RuntimeError(f"{MESSAGES - drained} messages were not drained")
    return drained / seconds
