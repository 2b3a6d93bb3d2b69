"""Real worker processes on the test's own database."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from queues.models import PerspectiveSubscription

if TYPE_CHECKING:
    from tests.worker.island import Island

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
    for event_type in ("test.Added", "test.GateAdded", "test.KillAdded"):
        PerspectiveSubscription.objects.create(perspective_name="test_totals", event_type=event_type)


@contextmanager
def publishing_hangs(message_id: UUID) -> Iterator[None]:
    """Let whoever publishes this message wait: its id is being remembered by a transaction that does not end."""
    with psycopg.connect(database_url()) as other:
        other.execute("INSERT INTO wh_message_deduplication (message_id) VALUES (%s)", [message_id])
        yield
        other.rollback()


def is_publishing() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND query LIKE '%wh_message_deduplication%'"
        )
        return bool(cursor.fetchone()[0])


class Process(Protocol):
    """A process of the shop, started or forked."""

    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def poll(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True)
class Fork:
    """A process forked by the forge; its numbers come in files."""

    pid_file: Path
    exit_file: Path

    @property
    def pid(self) -> int:
        eventually(self.pid_file.exists, "the process is forked")
        return int(self.pid_file.read_text())

    def send_signal(self, sig: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, sig)

    def kill(self) -> None:
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        eventually(self.exit_file.exists, "the process ends")
        return int(self.exit_file.read_text())

    def poll(self) -> int | None:
        return int(self.exit_file.read_text()) if self.exit_file.exists() else None


@dataclass(frozen=True, kw_only=True)
class Forge:
    """The process that forks others."""

    process: subprocess.Popen[bytes]

    def fork(self, *argv: str, environment: Mapping[str, str], log: Path) -> Fork:
        numbers = {"pid": str(log.with_suffix(".pid")), "exit": str(log.with_suffix(".exit"))}
        order = {"argv": argv, "environment": dict(environment), "log": str(log), **numbers}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        return Fork(pid_file=Path(numbers["pid"]), exit_file=Path(numbers["exit"]))


@dataclass
class Shop:
    """Starts processes of the shop, and reads what they did."""

    folder: Path
    forge: Forge
    processes: list[Process]

    @property
    def gate(self) -> Path:
        return self.folder / "gate"

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process from its beginning."""
        with self._new_log().open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                env={**os.environ, **start_environment(), **self.environment()},
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def run(self, *argv: str, **environment: str) -> Fork:
        """Fork a process that runs a management command."""
        process = self.forge.fork(*argv, environment={**self.environment(), **environment}, log=self._new_log())
        self.processes.append(process)
        return process

    def drainer(self, source: str = "inbox", **environment: str) -> Fork:
        return self.run("drain", source, "--until-empty", **environment)

    def drain_to_the_end(self, source: str = "inbox", restarts: int = 10, **environment: str) -> list[int]:
        """Run drainers one after another, as a supervisor would, until one ends well; return the exit codes."""
        codes: list[int] = []
        while not codes or (codes[-1] != 0 and len(codes) <= restarts):
            codes.append(self.drainer(source, **environment).wait())
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
        return sorted(self.folder.glob("*.log"))[number].read_text()

    def _new_log(self) -> Path:
        return self.folder / f"{len(self.processes):02}.log"

    def environment(self) -> dict[str, str]:
        return {
            "TEST_RUN_DIR": str(self.folder / "run"),
            "TEST_STARTS": str(self.folder / "starts"),
            "TEST_GATE": str(self.gate),
            "TEST_MARKS": str(self.folder),
            "TEST_KILL_AT": "",
        }


def start_environment() -> dict[str, str]:
    """Return the variables that a process needs to start on the test's database."""
    return {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
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


@contextmanager
def started_forge(folder: Path, **environment: str) -> Iterator[Forge]:
    """Start a process that forks those of tests."""
    given = {**os.environ, **start_environment(), "TEST_RUN_DIR": str(folder), "TEST_KILL_AT": "", **environment}
    with (folder / "forge").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.forge"],
            env=given,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    yield Forge(process=process)
    process.communicate()
    assert process.returncode == 0, (folder / "forge").read_text()


@pytest.fixture(scope="session")
def forge(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """Give the tests a process that forks drainers of their database."""
    with started_forge(tmp_path_factory.mktemp("forge")) as forge:
        yield forge


@pytest.fixture(scope="session")
def island(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Island"]:
    """Give the tests a worker and a beat on servers of their own, which the tests may restart."""
    from tests.worker.island import started_island

    with started_island(tmp_path_factory.mktemp("island")) as island:
        yield island


@pytest.fixture
def celery_stays(island: "Island") -> Iterator[None]:
    """Begin with the gate shut; the worker and the beat of a test's end are up without help."""
    island.gate.unlink(missing_ok=True)
    if island.worker.poll() is not None:
        island.start_worker()  # a test that failed has left none
    yield
    island.gate.touch()
    assert island.worker.poll() is None
    assert island.beat.poll() is None


@pytest.fixture
def shop(transactional_db: None, forge: Forge, tmp_path: Path) -> Iterator[Shop]:
    """Give a test its shop, and end every process that it left."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS test_effects (message_id uuid, payload text)")
        cursor.execute("TRUNCATE test_effects")
    made = Shop(folder=tmp_path, forge=forge, processes=[])
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_effects")
