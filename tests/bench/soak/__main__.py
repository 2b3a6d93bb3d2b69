"""Send, drain under kills, and look whether all adds up: `make soak`. Wants an empty database, and migrates it."""

import json
import os
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

import django
from django.core.management import call_command


def main() -> None:
    """Print one JSON line and OK or FAILED; the exit code says it too."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the workers must not be left behind
    with tempfile.TemporaryDirectory(prefix="deadletters-soak-") as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.bench.soak.settings", "SOAK_FOLDER": folder}
        os.environ["SOAK_BROKER"] = options.broker
        django.setup()
        call_command("migrate", verbosity=0)
        result = _soak(options, Path(folder))
    print(json.dumps(result))  # noqa: T201 - this is its output
    print("FAILED" if result["faults"] else "OK")  # noqa: T201
    sys.exit(bool(result["faults"]))


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="messages")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-seconds", type=float, default=10, help="one worker is killed so often")
    parser.add_argument("--deadline-seconds", type=float, default=3600)
    parser.add_argument("--broker", default="", help="URL of a broker through which the outbox's messages go")
    parser.add_argument("--celery", action="store_true", help="Celery workers, not manage.py drain all")
    return parser.parse_args()


def _soak(options: Namespace, folder: Path) -> dict[str, object]:
    from tests.bench.soak.run import Soak
    from tests.bench.soak.workers import CELERY, COMMAND, RECEIVE, Workers

    commands = [CELERY if options.celery else COMMAND] * options.workers
    if options.broker:
        commands.append((*RECEIVE, "--url", options.broker))
    workers = Workers(commands=commands, folder=folder)
    soak = Soak(
        count=options.count,
        workers=workers,
        folder=folder,
        deadline_seconds=options.deadline_seconds,
        broker=options.broker,
    )
    return soak.run(soak.every_seconds(options.kill_seconds))


if __name__ == "__main__":
    main()
