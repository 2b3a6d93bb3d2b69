"""A process of the shop that has started once, and forks others that need not start: a drainer in no time.

It reads orders from its input, an object a line: {"argv", "environment", "log", "pid", "exit"}, of which the last
three are paths. A fork runs the command; its process id and, in the end, its exit code are written to their files.
"""

import json
import os
import signal
import sys
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django
import time_machine
from django.conf import settings
from django.core.management import call_command
from django.db import connections


def main() -> None:
    django.setup()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            _stand_by(json.loads(line))


def _stand_by(order: dict[str, Any]) -> None:
    """Fork the process, and write down how it ended, which only its parent is told."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _run(order)
    _write(Path(order["pid"]), pid)
    _write(Path(order["exit"]), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _write(path: Path, number: int) -> None:
    """Write a whole file: whoever sees it finds the number in it."""
    half = path.with_suffix(".half")
    half.write_text(str(number))
    half.rename(path)


def _run(order: dict[str, Any]) -> None:
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.environ.update(order["environment"])
    _read_settings_again()
    code = 0
    try:
        call_command(*order["argv"])
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    connections.close_all()
    sys.stdout.flush()
    os._exit(code)


def _read_settings_again() -> None:
    from queues.conf import conf
    from tests.worker.shop import faults

    own = {"RUN_DIR": Path(os.environ["TEST_RUN_DIR"]), **json.loads(os.environ.get("TEST_QUEUES", "{}"))}
    settings.QUEUES = {**settings.QUEUES, **own}
    conf.cache_clear()
    if ahead := os.environ.get("TEST_CLOCK_AHEAD_SECONDS"):
        time_machine.travel(datetime.now(UTC) + timedelta(seconds=float(ahead))).start()
    faults.arm()


if __name__ == "__main__":
    main()
