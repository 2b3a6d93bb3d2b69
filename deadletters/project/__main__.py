"""The command line: `python -m deadletters.project`, also installed as `deadletters`."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from deadletters.embedded.errors import ABOUT_THE_FOLDER, CannotStart, unusable
from deadletters.project.around import run_with_services
from deadletters.project.run import run

RUN = "start everything: services, migrations, web server, worker, schedule, demo"
SERVICES = "run a command with PostgreSQL and Valkey beside it"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
    try:
        return run() if given.command == "run" else run_with_services(given.argv, is_durable=given.durable)
    except CannotStart as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    except OSError as exc:
        if exc.errno not in ABOUT_THE_FOLDER:
            raise
        sys.stderr.write(f"{unusable(Path(exc.filename or 'the data directory'), exc)}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End in order, so that what was started is stopped."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deadletters", description="A dashboard for dead letters.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help=RUN)
    services = commands.add_parser("services", help=SERVICES, usage="deadletters services [--durable] -- COMMAND...")
    services.add_argument("--durable", action="store_true", help="write as for data that are kept, also temporary ones")
    services.add_argument("argv", nargs="+", metavar="COMMAND")
    return parser


if __name__ == "__main__":
    sys.exit(main())
