"""Celery: one worker runs as many tasks as each line says, which do nothing, and this says how many a second.

Its first argument: JSON with `broker`, the URL of a Redis or Valkey. From the first message that leaves the list to
the moment at which all are acknowledged. The pool is the one with which it is quickest, in the worker's own process.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery

QUEUE, UNACKED = "bench_nothing", "bench_unacked"
BROKER = "BENCH_BROKER"
PAYLOAD = {"number": 1, "text": "x" * 176}
LOOKS_SECONDS = 0.002
app = Celery("bench", broker=os.environ.get(BROKER))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "unacked_key": UNACKED,
        "unacked_index_key": f"{UNACKED}_index",
        "unacked_mutex_key": f"{UNACKED}_mutex",
    },
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=128,
)


@app.task(name="bench.nothing")
def nothing(_payload: object) -> None:
    """Do nothing."""


def measure(tasks: int, broker: str) -> float:
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(tasks):
            nothing.apply_async((PAYLOAD,), producer=producer)
        client = producer.channel.client
        worker = _worker(broker)
        try:
            _wait(lambda: client.llen(QUEUE) < tasks)
            started = time.perf_counter()
            _wait(lambda: not client.llen(QUEUE) and not client.hlen(UNACKED))
            return tasks / (time.perf_counter() - started)
        finally:
            worker.terminate()
            worker.wait()


def _worker(broker: str) -> "subprocess.Popen[bytes]":
    options = ["worker", "-P", "solo", "-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", Path(__file__).stem, *options],
        cwd=Path(__file__).parent,
        env={**os.environ, BROKER: broker},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _wait(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(LOOKS_SECONDS)


def main() -> None:
    broker = json.loads(sys.argv[1])["broker"]
    app.conf.broker_url = broker
    for line in sys.stdin:
        print(measure(int(line), broker), flush=True)  # noqa: T201 - this is its output


if __name__ == "__main__":
    main()
