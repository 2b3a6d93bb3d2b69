"""The services of one data directory together, held by one process at a time."""

import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deadletters.embedded import processes
from deadletters.embedded.addresses import broker_url, database_url
from deadletters.embedded.errors import CannotStart, unusable
from deadletters.embedded.places import Places, make_data_dir, make_folder
from deadletters.embedded.postgres import Postgres
from deadletters.embedded.programs import runner
from deadletters.embedded.valkey import Valkey

STOP_LEFTOVERS: processes.Stop = ((signal.SIGTERM, 5), (signal.SIGKILL, 5))


@dataclass(kw_only=True)
class Hold:
    """The lock of a data directory, and what its holder says about itself."""

    descriptor: int

    def say(self, url: str) -> None:
        """Note the holder and its address, for the one who tries to start a second one."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()}\n{url}\n".encode(), 0)


@contextmanager
def held(places: Places) -> Iterator[Hold]:
    """Hold the data directory; raises CannotStart, saying who holds it, when somebody else does."""
    make_data_dir(places.data)
    try:
        descriptor = os.open(places.lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise unusable(places.data, exc) from exc
    try:
        _lock(descriptor, places)
        hold = Hold(descriptor=descriptor)
        hold.say("")
        yield hold
    finally:
        os.close(descriptor)


def _lock(descriptor: int, places: Places) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CannotStart(_already_running(places, os.pread(descriptor, 200, 0).decode())) from None


def _already_running(places: Places, said: str) -> str:
    pid, _, url = said.partition("\n")
    where = f" at {url.strip()}" if url.strip() else f" in {places.data}"
    return f"deadletters is already running{where} (process {pid.strip() or 'unknown'})."


@dataclass(kw_only=True)
class Services:
    """The embedded servers that are wanted, started and stopped together."""

    places: Places
    postgres: Postgres | None = None
    valkey: Valkey | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that tell a program where the embedded servers are."""

    def start(self) -> None:
        """Start the servers, in turn."""
        for server in self.servers():
            server.start()

    def stop(self) -> None:
        """Stop the servers, the last one first."""
        for server in reversed(self.servers()):
            server.stop()

    @property
    def programs(self) -> Path | None:
        """Return the folder with psql and pg_dump; None when PostgreSQL is not embedded."""
        return self.postgres.programs if self.postgres else None

    def servers(self) -> list[Postgres | Valkey]:
        """Return the servers that are embedded."""
        return [server for server in (self.postgres, self.valkey) if server is not None]


def services(places: Places, *, database: bool, broker: bool, keep: bool = True) -> Services:
    """Prepare the wanted servers of a data directory that the caller holds; what an earlier start left is stopped."""
    for pid in processes.leftovers(places.data):
        processes.stop_pid(pid, STOP_LEFTOVERS)
    who = runner(places)
    owner = (who.uid, who.gid) if who else None
    if who is not None and not who.can_enter(places.data):
        raise CannotStart(
            f"The user who runs the servers (uid {who.uid}) cannot enter {places.data}: "
            "set DEADLETTERS_DATA_DIR to a folder that everybody can reach."
        )
    make_folder(places.logs)
    made = Services(places=places)
    if database or broker:
        make_folder(places.sockets, owner=owner)
    if database:
        made.postgres = Postgres(places=places, who=who, keep=keep)
        made.environment["DATABASE_URL"] = database_url(places.data)
    if broker:
        make_folder(places.valkey, owner=owner)
        made.valkey = Valkey(places=places, who=who)
        made.environment["CELERY_BROKER_URL"] = broker_url(places.data)
    return made


@contextmanager
def temporary_data_dir() -> Iterator[Path]:
    """Make a data directory that is removed afterwards."""
    data = Path(tempfile.mkdtemp(prefix="deadletters-"))
    try:
        yield make_data_dir(data)
    finally:
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(Places(data=data).sockets, ignore_errors=True)
