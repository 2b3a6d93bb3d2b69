"""Children kept running: started, started again when they die, stopped together."""

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deadletters.embedded import processes
from deadletters.embedded.errors import CannotStart
from deadletters.embedded.logs import rotate, tail
from deadletters.embedded.services import Services

LOOK_SECONDS = 0.2
ROTATE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A child that ran this long counts as well again: its next pause is the first one."""


@dataclass(kw_only=True)
class Child:
    """A program of ours and its present process."""

    name: str
    command: processes.Command
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    due_at: float | None = None

    def start(self) -> None:
        self.process = processes.start(self.command)
        self.started_at, self.due_at = time.monotonic(), None

    def has_died(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def code(self) -> int | None:
        return self.process.returncode if self.process else None

    def last_words(self) -> str:
        """Return the end of its log, for the one who has to find out why it died."""
        return tail(self.command.log).strip()


@dataclass(kw_only=True)
class Supervisor:
    """Keeps the children and the embedded servers running; everything happens in the main thread."""

    services: Services
    children: Sequence[Child]
    say: Callable[[str], None]
    _hurried: bool = field(default=False, init=False)
    _rotated_at: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Start every child."""
        for child in self.children:
            child.start()

    def refuse_deaths(self) -> None:
        """Raise CannotStart when a child has died already: at the start that is a fault, not an accident."""
        for child in self.children:
            if child.has_died():
                said = "\n".join(child.last_words().splitlines()[-20:])
                raise CannotStart(
                    f"{said}\nThe {child.name} ended at once (exit code {child.code()}): see {child.command.log}."
                )

    def keep(self) -> None:
        """Keep everything running for ever; a signal's exception ends it."""
        while True:
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look after everybody once."""
        self._look_after_servers()
        for child in self.children:
            self._look_after(child)
        if time.monotonic() - self._rotated_at > ROTATE_SECONDS:
            self._rotated_at = time.monotonic()
            for log in {command.log for command in self._commands()}:
                rotate(log)

    def stop(self) -> None:
        """Stop the children warmly, all at once, then the servers; a signal meanwhile makes it quick."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hurry)
        running = [child for child in self.children if child.process is not None]
        for child in running:
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(child.command.stop[0][0])
        for child in running:
            self._wait_for(child)
        self.services.stop()

    def _hurry(self, *_: object) -> None:
        self._hurried = True

    def _wait_for(self, child: Child) -> None:
        assert child.process is not None
        limit = time.monotonic() + child.command.stop[0][1]
        while child.process.poll() is None and time.monotonic() < limit and not self._hurried:
            time.sleep(processes.POLL_SECONDS)
        processes.stop(child.process, child.command.stop[1:])

    def _look_after(self, child: Child) -> None:
        if child.due_at is not None:
            if time.monotonic() >= child.due_at:
                child.start()
        elif child.has_died():
            self._plan_again(child)

    def _plan_again(self, child: Child) -> None:
        assert child.process is not None
        processes.stop(child.process, ())  # what is left of its group would hold its port
        if time.monotonic() - child.started_at > STEADY_SECONDS:
            child.pause_seconds = FIRST_PAUSE_SECONDS
        child.due_at = time.monotonic() + child.pause_seconds
        self.say(
            f"The {child.name} ended (exit code {child.code()}) and starts again "
            f"in {child.pause_seconds:.0f} s: see {child.command.log}."
        )
        child.pause_seconds = min(child.pause_seconds * 2, MAX_PAUSE_SECONDS)

    def _look_after_servers(self) -> None:
        for server in self.services.servers():
            if server.process is None or server.process.poll() is not None:
                self.say(f"{type(server).__name__} ended and starts again: see {server.log}.")
                try:
                    server.start()
                except CannotStart as exc:
                    self.say(str(exc))
                    time.sleep(FIRST_PAUSE_SECONDS)

    def _commands(self) -> list[processes.Command]:
        return [child.command for child in self.children] + [server.command() for server in self.services.servers()]
