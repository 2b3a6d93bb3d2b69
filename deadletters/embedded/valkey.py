"""Valkey in a data directory, with its data kept: Celery's broker."""

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from deadletters.embedded import processes
from deadletters.embedded.errors import CannotStart
from deadletters.embedded.logs import reason, tail
from deadletters.embedded.places import Places
from deadletters.embedded.programs import Runner, valkey_program

START_SECONDS = 30.0
STOP: processes.Stop = ((signal.SIGTERM, 10), (signal.SIGKILL, 5))
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
}


@dataclass(kw_only=True)
class Valkey:
    """One Valkey server; the caller holds the lock of the data directory."""

    places: Places
    who: Runner | None
    program: Path = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.program = valkey_program(self.places, self.who)

    @property
    def log(self) -> Path:
        return self.places.logs / "valkey.log"

    def start(self) -> None:
        """Start the server and wait until it has loaded its data."""
        self._stop_leftover()
        before = self.log.stat().st_size if self.log.exists() else 0
        limit = time.monotonic() + START_SECONDS
        self.process = processes.start(self.command())
        while self._server_pid() != self.process.pid:
            if self.process.poll() is not None:
                raise reason("Valkey", tail(self.log, since=before), self.log, self.places.data)
            if time.monotonic() > limit:
                self.stop()
                raise CannotStart(f"Valkey does not answer after {START_SECONDS:.0f} seconds: see {self.log}.")
            time.sleep(processes.POLL_SECONDS)

    def stop(self) -> None:
        """Stop the server; it writes its data first."""
        if self.process is not None:
            processes.stop(self.process, STOP)
            self.process = None

    def _stop_leftover(self) -> None:
        """Stop a server that an earlier start left behind on our socket."""
        pid = self._server_pid()
        if pid and processes.works_in(pid, self.places.valkey):
            processes.stop_pid(pid, STOP)

    def _server_pid(self) -> int | None:
        """Return the process that answers on our socket; None when nobody does or it still loads."""
        once = Retry(NoBackoff(), 0)
        client = redis.Redis(unix_socket_path=str(self.places.valkey_socket), socket_timeout=5, retry=once)
        try:
            return int(client.info("server")["process_id"])
        except redis.RedisError:
            return None
        finally:
            client.close()

    def command(self) -> processes.Command:
        """Return how the server is run."""
        argv: list[str | Path] = [self.program, "--dir", self.places.valkey, "--unixsocket", self.places.valkey_socket]
        for name, value in SETTINGS.items():
            argv += [f"--{name}", value]
        return processes.Command(argv=argv, folder=self.places.valkey, log=self.log, stop=STOP, who=self.who)
