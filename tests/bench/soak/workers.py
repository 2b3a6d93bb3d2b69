"""Worker processes that are started, killed with all their children, and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.soak.messages import DESTINATION

ROOT = Path(__file__).parents[3]
COMMAND = ("manage.py", "drain", "all")
RECEIVE = ("manage.py", "receive", "--queue", DESTINATION)
CELERY = (
    *("-m", "celery", "-A", "deadletters.project", "worker", "-Q", "inbox,outbox,perspective", "-c", "2"),
    *("-l", "WARNING", "--without-mingle", "--without-gossip"),
)
END_SECONDS = 60


@dataclass
class Workers:
    """Keeps a worker alive for each command; each is the head of a process group."""

    commands: Sequence[Sequence[str]]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    kills: int = 0
    deaths: int = 0
    """Workers that ended without being killed from outside: a message took them along."""
    _running: list[tuple[Sequence[str], subprocess.Popen[bytes]]] = field(default_factory=list)

    def start(self) -> None:
        self._running = [(command, self._start(command)) for command in self.commands]

    def keep_alive(self) -> None:
        """Start again what has ended, as a supervisor does."""
        for place, (command, process) in enumerate(self._running):
            if process.poll() is not None:
                self.deaths += 1
                self._running[place] = command, self._start(command)

    def kill_one(self) -> None:
        """Kill the worker that runs longest, and its children, without a word; start another one."""
        command, victim = self._running.pop(0)
        self._kill(victim)
        self.kills += 1
        self._running.append((command, self._start(command)))

    def kill_all(self) -> None:
        """Kill all workers at once, with their children, and start none."""
        for _, process in self._running:
            self._kill(process)
        self.kills += len(self._running)
        self._running = []

    def stop(self) -> None:
        """Ask all to end; kill those that do not."""
        for _, process in self._running:
            if process.poll() is None:
                process.terminate()
        for _, process in self._running:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill(process)
        self._running = []

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                env={**os.environ, **self.environment, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a group while its head is not yet reaped, so that no other process can have its number."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
