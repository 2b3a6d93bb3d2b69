"""Data directories for real servers, and programs started around them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

LIMIT_SECONDS = 60


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can reach, unlike pytest's own, since as root the servers run as somebody else."""
    folder = Path(tempfile.mkdtemp(prefix="dl-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _no_services_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "CELERY_BROKER_URL", "DEADLETTERS_DATA_DIR", "DEADLETTERS_PORT", "DEADLETTERS_DEMO"):
        monkeypatch.delenv(name, raising=False)


Starter = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(place: Path) -> Iterator[Starter]:
    """Start `deadletters ARGUMENTS`, its output in one pipe; what still runs afterwards is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "deadletters.project", *arguments]
        variables = os.environ | {"DEADLETTERS_DATA_DIR": str(place / "data")} | environment
        process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until(is_true: Callable[[], object], what: str) -> None:
    """Look again and again until it is true."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not is_true():
        assert time.monotonic() < limit, f"never came true: {what}"
        time.sleep(0.02)
