"""Real worker processes on the test's own database."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection

from queues.models import PerspectiveSubscription

ROOT = Path(__file__).parents[2]
DEADLINE = 60


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Wait until the condition holds and return it; the deadline is for a broken product, not a measure."""
    until = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < until, f"never happened: {what}"
        time.sleep(0.02)
    return value


def subscribe_the_shop() -> None:
    """Subscribe the shop's perspective in this process, which does not load the shop's handlers."""
    for event_type in ("test.Added", "test.KillAdded"):
        PerspectiveSubscription.objects.create(perspective_name="test_totals", event_type=event_type)


@dataclass
class Shop:
    """Starts processes of the shop, and reads what they did."""

    folder: Path
    processes: list[subprocess.Popen[bytes]]

    @property
    def gate(self) -> Path:
        return self.folder / "gate"

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"log-{len(self.processes):02}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command], env=self._environment(), cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
            )
        self.processes.append(process)
        return process

    def drainer(self, source: str = "inbox") -> subprocess.Popen[bytes]:
        return self.start("manage.py", "drain", source, "--until-empty")

    def drain_to_the_end(self, source: str = "inbox", restarts: int = 10) -> list[int]:
        """Run drainers one after another, as a supervisor would, until one ends well; return the exit codes."""
        codes: list[int] = []
        while not codes or (codes[-1] != 0 and len(codes) <= restarts):
            codes.append(self.drainer(source).wait(DEADLINE))
        return codes

    def starts(self, message_type: str) -> list[str]:
        path = self.folder / "starts"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(message_type + " ")]

    def effects(self) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT payload FROM test_effects ORDER BY payload")
            return [row[0] for row in cursor.fetchall()]

    def log(self, number: int = -1) -> str:
        return sorted(self.folder.glob("log-*"))[number].read_text()

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "DATABASE_URL": database_url(),
            "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
            "TEST_RUN_DIR": str(self.folder / "run"),
            "TEST_STARTS": str(self.folder / "starts"),
            "TEST_GATE": str(self.gate),
            "PYTHONPATH": str(ROOT),
        }


def database_url() -> str:
    """Return the URL of the test's own database, on a socket or a host."""
    given = connection.settings_dict
    user, password, name = (quote(str(given[part]), safe="") for part in ("USER", "PASSWORD", "NAME"))
    host = given["HOST"] or given["OPTIONS"].get("host", "")
    if host.startswith("/"):
        return f"postgresql://{user}:{password}@/{name}?host={quote(host, safe='')}"
    return f"postgresql://{user}:{password}@{host}:{given['PORT'] or 5432}/{name}"


@pytest.fixture
def shop(transactional_db: None, tmp_path: Path) -> Iterator[Shop]:
    """Give a test its shop, and end every process that it left."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS test_effects (message_id uuid, payload text)")
        cursor.execute("TRUNCATE test_effects")
    made = Shop(folder=tmp_path, processes=[])
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_effects")
