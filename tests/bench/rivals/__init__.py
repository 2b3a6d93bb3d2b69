"""Other people's pages, measured beside ours: each in an environment of its own, on the same server."""

import json
import subprocess
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from django.db import connection

from tests.bench import machine

HERE = Path(__file__).parent
PACKAGES = ("django>=5.2,<5.3", "django-celery-results==2.6.0", "psycopg[binary]")


class Rival:
    """Django's admin list over the results of django-celery-results, in a process that answers a line with a line.

    Installed in a throw-away environment, in a schema of its own of the bench's database.
    """

    def __init__(self, *, rows: int) -> None:
        self._rows = rows
        self._folder = tempfile.TemporaryDirectory(prefix="deadletters-rival-")

    def __enter__(self) -> Self:
        machine.say(f"installing {', '.join(PACKAGES)}")
        venv.create(self._folder.name, with_pip=True)
        python = str(Path(self._folder.name) / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(install, check=True)
        given = json.dumps({"database": _address(), "rows": self._rows})
        command = [python, "-I", str(HERE / "adminlist.py"), given]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._folder.cleanup()

    def measure(self, query: str) -> Callable[[], float]:
        """Return what asks for the list with this query, and returns its milliseconds."""
        return lambda: self._ask(query)

    def _ask(self, query: str) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the rival has no pipes")
        self._process.stdin.write(f"{query}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def _address() -> dict[str, str]:
    known = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    parameters = connection.get_connection_params()
    return {theirs: str(parameters.get(ours) or "") for theirs, ours in known.items()}
