"""Services of their own for tests that restart them: PostgreSQL, a broker, a Celery worker and its beat."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import psycopg
import redis

from deadletters.embedded.places import Places, make_data_dir
from deadletters.embedded.postgres import Postgres
from deadletters.embedded.services import Services, held, services
from deadletters.embedded.valkey import Valkey
from tests.worker.conftest import DEADLINE, Fork, Shop, eventually, started_forge

TICKS = json.dumps({"TICK_SECONDS": 2})
PATIENCE = json.dumps({"TICK_SECONDS": 60})
"""A wake-up expires after a tick: on a busy machine it may take longer than the beat's ticks to be received."""

CELERY = ("-m", "celery", "-A", "deadletters.project")
QUEUES = "inbox,outbox,perspective,recovery"
WORKER = ("worker", "-Q", QUEUES, "-c", "2", "-l", "INFO", "--without-mingle", "--without-gossip")


@dataclass
class Island(Shop):
    """A shop on servers of its own. Its payloads are told apart by a prefix, since nothing is thrown away."""

    servers: Services = field(kw_only=True)

    @property
    def postgres(self) -> Postgres:
        assert self.servers.postgres is not None
        return self.servers.postgres

    @property
    def valkey(self) -> Valkey:
        assert self.servers.valkey is not None
        return self.servers.valkey

    @contextmanager
    def broker(self) -> Iterator[redis.Redis]:
        path = unquote(self.servers.environment["CELERY_BROKER_URL"].removeprefix("redis+socket://"))
        with redis.Redis(unix_socket_path=path, single_connection_client=True, decode_responses=True) as client:
            yield client

    def execute(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.servers.environment["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(statement, arguments)
            return cursor.fetchall() if cursor.description else []

    def send(self, message_type: str, *payloads: str, **options: Any) -> Fork:
        """Send messages from a process of their own; return it when it has ended."""
        file = self.folder / f"{uuid4()}.jsonl"
        lines = [{"type": message_type, "payload": payload, **options} for payload in payloads]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        process = self.run("send", str(file))
        assert process.wait() == 0, self.log()
        return process

    def python(self, code: str) -> None:
        """Run a piece of Python in a process of the shop."""
        assert self.run("shell", "-c", code).wait() == 0, self.log()

    @contextmanager
    def without_ticks(self) -> Iterator[None]:
        """Let beat pause."""
        self.beat.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.beat.send_signal(signal.SIGCONT)

    def effects_of(self, payloads: list[str]) -> list[str]:
        found = self.execute("SELECT payload FROM test_effects WHERE payload = ANY (%s) ORDER BY payload", payloads)
        return [row[0] for row in found]

    def eventually_all_have_their_effect(self, payloads: list[str]) -> None:
        eventually(lambda: len(self.effects_of(payloads)) >= len(payloads), "each message has its effect")
        eventually(lambda: self.waiting(payloads) == 0, "nothing waits")
        assert self.effects_of(payloads) == sorted(payloads)

    def waiting(self, payloads: list[str]) -> int:
        found = self.execute("SELECT count(*) FROM wh_inbox WHERE event_data #>> '{}' = ANY (%s)", payloads)
        return int(found[0][0])

    def outcomes(self, payload: str) -> list[tuple[Any, ...]]:
        """Return the runs of a message that failed or were lost, by its effect's id."""
        return self.execute(
            "SELECT outcome, attempt FROM delivery_log WHERE outcome <> 'released' AND message_id IN"
            " (SELECT message_id FROM test_effects WHERE payload = %s) ORDER BY id",
            payload,
        )

    def failed_tasks(self) -> int:
        """Return how many drains the worker has seen fail."""
        return self.log(self.worker_log).count("raised unexpected")

    def start_beat(self) -> subprocess.Popen[bytes]:
        return self.start(*CELERY, "beat", "-l", "INFO", "--pidfile=")

    def end_worker(self) -> None:
        self.worker.send_signal(signal.SIGTERM)
        assert self.worker.wait(DEADLINE) == 0

    def kill_worker(self) -> None:
        """End the worker and all of its pool at once, in the middle of whatever they do."""
        pool = Path(f"/proc/{self.worker.pid}/task/{self.worker.pid}/children").read_text().split()
        for pid in (self.worker.pid, *map(int, pool)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.worker.wait()

    def start_worker(self, pool: str = "prefork") -> None:
        self.worker_log = log = len(self.processes)
        self.worker = self.start(*CELERY, *WORKER, "-P", pool)
        eventually(lambda: " ready." in self.log(log), "the worker is ready")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "TEST_QUEUES": PATIENCE, **self.servers.environment}


@contextmanager
def island_servers() -> Iterator[Services]:
    """Start PostgreSQL and Valkey, where the user who runs them can reach their data; what is committed is kept."""
    data = make_data_dir(Path(tempfile.mkdtemp(prefix="dl-island-")))
    try:
        with held(Places(data=data)):
            made = services(Places(data=data), database=True, broker=True)
            try:
                made.start()
                yield made
            finally:
                made.stop()
                shutil.rmtree(made.places.sockets, ignore_errors=True)
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def started_island(folder: Path) -> Iterator[Island]:
    """Start the servers, and a worker and a beat on them."""
    with island_servers() as servers, started_forge(folder, TEST_QUEUES=PATIENCE, **servers.environment) as forge:
        island = Island(folder=folder, forge=forge, processes=[], servers=servers)
        assert island.run("migrate", "--no-input", "--verbosity=0", TEST_QUEUES=TICKS).wait() == 0, island.log()
        island.execute("CREATE TABLE test_effects (message_id uuid, payload text)")
        try:
            island.beat = island.start_beat()
            island.start_worker()
            yield island
        finally:
            for process in island.processes:
                process.kill()
                process.wait()


def named(count: int) -> list[str]:
    """Return payloads that no other test has."""
    prefix = uuid4()
    return [f"{prefix}-{n:03}" for n in range(count)]


def nothing_is_claimed(island: Island) -> bool:
    ((claimed,),) = island.execute(
        "SELECT (SELECT count(*) FROM wh_inbox WHERE lease_token IS NOT NULL)"
        " + (SELECT count(*) FROM wh_streams WHERE lease_token IS NOT NULL)"
    )
    return bool(claimed == 0)


def kill_postgres(island: Island) -> None:
    """End PostgreSQL without a word to anybody, as a power cut does, and start it again."""
    assert island.postgres.process is not None
    island.postgres.process.send_signal(signal.SIGQUIT)
    island.postgres.process.wait()
    island.postgres.start()


def restart_postgres(island: Island) -> None:
    """End PostgreSQL in order, with its sessions, and start it again."""
    island.postgres.stop()
    island.postgres.start()


def terminate_backends(island: Island) -> None:
    """End each connection to the database but one's own."""
    island.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
