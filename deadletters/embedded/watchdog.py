"""Signals processes when the one that named them ends: reads `PID SIGNAL` lines until its standard input closes.

Signal 0 forgets the process.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Remember each line; at the end of the input send every signal."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    watched: dict[int, int] = {}
    for line in sys.stdin:
        pid, number = line.split()
        watched[int(pid)] = int(number)
    for each in watched:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, watched[each])


if __name__ == "__main__":
    main()
