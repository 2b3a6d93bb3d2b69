"""Logs of the programs that we start: their last lines, the reason in them, and their bound."""

import os
import shutil
from pathlib import Path

from deadletters.embedded.errors import FULL, CannotStart, disk_full

MAX_LOG_BYTES = 10 * 1024 * 1024
TAIL_BYTES = 4096


def tail(log: Path, *, since: int = 0, size: int = TAIL_BYTES) -> str:
    """Return the end of a log, nothing of it older than the byte offset `since`."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since if since <= end else 0, end - size))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def reason(server: str, said: str, log: Path, data: Path) -> CannotStart:
    """Say in one sentence why a server did not start, from what it said."""
    if any(os.strerror(number) in said for number in FULL):
        return disk_full(data)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = next((line for line in lines if "FATAL" in line or "PANIC" in line), lines[-1] if lines else "nothing")
    return CannotStart(f"{server} did not start; it said: {last[-300:]} (see {log}).")


def rotate(log: Path) -> None:
    """Keep a log and one older part of it within bounds; the writer appends, so its file stays open."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        shutil.copyfile(log, log.with_name(log.name + ".1"))
        os.truncate(log, 0)
