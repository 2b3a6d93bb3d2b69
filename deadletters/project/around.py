"""A command with services around it: embedded ones, unless URLs say where others are."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

from deadletters.embedded import processes
from deadletters.embedded.errors import CannotStart
from deadletters.embedded.places import Places, data_dir
from deadletters.embedded.services import held, services, temporary_data_dir
from deadletters.project.environment import env, given_broker_url, given_database_url

SETTINGS = "deadletters.project.settings"


def run_with_services(argv: Sequence[str], *, is_durable: bool = False) -> int:
    """Run a command with DATABASE_URL and CELERY_BROKER_URL set; returns its exit code.

    The data directory is a temporary one unless DEADLETTERS_DATA_DIR says where it is. is_durable: a temporary one,
    too, is written as if it were kept: a commit waits for the disk.
    """
    given = env.text("DEADLETTERS_DATA_DIR")
    with nullcontext(data_dir(given)) if given else temporary_data_dir() as data, held(Places(data=data)):
        made = services(
            Places(data=data),
            database=not given_database_url(),
            broker=not given_broker_url(),
            keep=bool(given) or is_durable,
        )
        try:
            made.start()
            return _run(argv, made.environment | {"DEADLETTERS_DATA_DIR": str(data)}, made.programs)
        finally:
            made.stop()


def _run(argv: Sequence[str], environment: dict[str, str], programs: Path | None) -> int:
    environment = os.environ | environment
    if environment.get("DJANGO_SETTINGS_MODULE") == SETTINGS:
        del environment["DJANGO_SETTINGS_MODULE"]  # our Celery app set it; a test command has its own
    if programs is not None:
        path = environment.get("PATH", os.defpath)
        environment["PATH"] = f"{path}{os.pathsep}{programs}"  # psql and pg_dump, behind the machine's own
    try:
        ending = processes.end_with_parent(signal.SIGTERM)
        process = subprocess.Popen(argv, env=environment, preexec_fn=ending)
    except FileNotFoundError:
        raise CannotStart(f"There is no command {argv[0]!r}.") from None
    except PermissionError:
        raise CannotStart(f"The command {argv[0]!r} cannot be run.") from None
    with _passing_signals_to(process):
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass SIGTERM on; the terminal sends SIGINT to the command itself."""

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGTERM, forward), signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
