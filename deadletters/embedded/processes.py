"""Processes that we start, and those that an earlier start left behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from deadletters.embedded import watchdog
from deadletters.embedded.programs import Runner

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.02
CHILD_OF = "_DEADLETTERS_CHILD_OF"
"""Environment variable that marks our children, so that the next start can recognise what survived."""

Stop = Sequence[tuple[signal.Signals, float]]
"""Signals in turn, each with the seconds to wait for its effect."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program to run beside us until we end."""

    argv: Sequence[str | Path]
    folder: Path
    log: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    stop: Stop
    who: Runner | None = None


def start(command: Command) -> subprocess.Popen[bytes]:
    """Start a program that stops when we end, also when we are killed.

    Call it from the main thread: on Linux the parent's death is the death of the thread that started the child.
    """
    who: dict[str, object] = {}
    if command.who is not None:
        who = {"user": command.who.uid, "group": command.who.gid, "extra_groups": []}
    with command.log.open("ab") as log:
        process = subprocess.Popen(  # type: ignore[call-overload]
            [os.fspath(part) for part in command.argv],
            cwd=command.folder,
            env=command.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=end_with_parent(command.stop[0][0]),
            **who,
        )
    if sys.platform != "linux":
        watch(process.pid, command.stop[0][0])
    return process  # type: ignore[no-any-return]


def stop(process: subprocess.Popen[bytes], how: Stop) -> None:
    """Stop a child, the next signal when the one before had no effect in its time; then what it left of its group."""
    for number, seconds in how:
        if process.poll() is not None:
            break
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if _watcher is not None:
        watch(process.pid, None)


def stop_pid(pid: int, how: Stop) -> None:
    """Stop a process that is not our child."""
    for number, seconds in how:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        limit = time.monotonic() + seconds
        while is_running(pid) and time.monotonic() < limit:
            time.sleep(POLL_SECONDS)
        if not is_running(pid):
            return


def is_running(pid: int) -> bool:
    """Say whether the process exists and is no zombie."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
        return False
    return bool(_ps(pid, "stat").lstrip("Z+"))


def works_in(pid: int, folder: Path) -> bool:
    """Say whether the process lives and works in the folder: a reused pid does not."""
    if not is_running(pid):
        return False
    if Path("/proc/self/cwd").exists():
        with suppress(OSError):
            return Path(os.readlink(f"/proc/{pid}/cwd")) == folder.resolve()  # noqa: PTH115
        return False
    return str(folder) in _ps(pid, "command")


def leftovers(data: Path) -> Iterator[int]:
    """Yield the living processes that an earlier start on this data directory left behind (Linux only)."""
    mark = f"{CHILD_OF}={data}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0") and is_running(int(entry.name)):
                yield int(entry.name)


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Return what a child has to call before it becomes its program; None where the system has no such thing."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def arrange() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            os._exit(1)  # it died before we could ask to be told

    return arrange


_watcher: IO[bytes] | None = None


def watch(pid: int, number: signal.Signals | None) -> None:
    """Have a watchdog send the signal to the process when we end: for systems without PR_SET_PDEATHSIG.

    None forgets the process, whose pid may be somebody else's by then.
    """
    global _watcher
    if _watcher is None:
        process = subprocess.Popen([sys.executable, watchdog.__file__], stdin=subprocess.PIPE, start_new_session=True)
        _watcher = process.stdin
    assert _watcher is not None
    _watcher.write(b"%d %d\n" % (pid, number or 0))
    _watcher.flush()


def _ps(pid: int, column: str) -> str:
    command = ["/bin/ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
