"""A worker process: drains the source that a line names, or runs that loop of the floors, and says what it took."""

import json
import resource
import sys
import time
from collections.abc import Callable

import django


def main() -> None:
    """Answer each line with JSON: `messages`, the monotonic times `started` and `ended`, and `peak_bytes` of memory."""
    django.setup()
    from queues.words.sources import SOURCES

    for line in sys.stdin:
        asked = line.strip()
        run = _drain(asked) if asked in SOURCES else _loop(asked)
        started = time.monotonic()
        messages = run()
        answer = {"messages": messages, "started": started, "ended": time.monotonic(), "peak_bytes": _peak_bytes()}
        print(json.dumps(answer), flush=True)  # noqa: T201 - this is its output


def _drain(source: str) -> Callable[[], int]:
    from queues.drainer import drain

    return lambda: drain(source, seconds=None).messages


def _loop(name: str) -> Callable[[], int]:
    from tests.bench.throughput.floors import LOOPS

    return LOOPS[name]


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
