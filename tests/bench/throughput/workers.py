"""Worker processes of the benches, on the bench's own database."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from tests.bench.answering import ROOT, Answering


@dataclass(frozen=True, kw_only=True)
class Drained:
    """What workers did together: messages, from the first one's start to the last one's end; memory of the largest."""

    messages: int
    seconds: float
    peak_bytes: int


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process with the benches' handlers."""
    return {
        **os.environ,
        "DATABASE_URL": _database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.bench.throughput.settings",
        "DEADLETTERS_LOG_LEVEL": "WARNING",
        "BENCH_BROKER": settings.CELERY_BROKER_URL,
        "PYTHONPATH": str(ROOT),
        **more,
    }


@contextmanager
def workers(count: int = 1, **more: str) -> Iterator["Workers"]:
    """Start workers; more: environment variables of theirs."""
    command = [sys.executable, "-m", "tests.bench.throughput.worker"]
    with ExitStack() as stack:
        yield Workers([stack.enter_context(Answering(command, environment(**more))) for _ in range(count)])


class Workers:
    """Worker processes that do the same at the same time."""

    def __init__(self, processes: Sequence[Answering]) -> None:
        self._processes = processes

    def run(self, what: str, messages: int) -> Drained:
        """Let them drain a source or run a loop; raises RuntimeError unless so many messages were taken."""
        for process in self._processes:
            process.tell(what)
        answers: list[dict[str, Any]] = [process.answer() for process in self._processes]
        taken = sum(answer["messages"] for answer in answers)
        if taken != messages:
            raise RuntimeError(f"{what}: {taken} of {messages} messages were taken")
        seconds = max(answer["ended"] for answer in answers) - min(answer["started"] for answer in answers)
        return Drained(messages=taken, seconds=seconds, peak_bytes=max(answer["peak_bytes"] for answer in answers))


def _database_url() -> str:
    given = connection.get_connection_params()
    user, password, name = (quote(str(given.get(part) or ""), safe="") for part in ("user", "password", "dbname"))
    host = str(given.get("host") or "localhost")
    if host.startswith("/"):
        return f"postgresql://{user}:{password}@/{name}?host={quote(host, safe='')}"
    return f"postgresql://{user}:{password}@{host}:{given.get('port') or 5432}/{name}"
