"""Other people's software, measured beside ours: each in an environment of its own, on the same servers."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from tests.bench import machine
from tests.bench.answering import Answering

HERE = Path(__file__).parent
PYTHONS = (sys.executable, "python3.13", "python3.12")


@dataclass(frozen=True, kw_only=True)
class Kit:
    """A script of this folder, and what it needs: packages, none = those of this process, and the oldest Python."""

    script: str
    packages: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)


ADMIN_LIST = Kit(
    script="adminlist.py", packages=("django>=5.2,<5.3", "django-celery-results==2.6.0", "psycopg[binary]")
)
CELERY = Kit(script="celerynoop.py")
PGQUEUER = Kit(script="pgqueuernoop.py", packages=("pgqueuer==1.6.0", "asyncpg", "uvloop"))
RELIABLE_OUTBOX = Kit(
    script="reliableoutbox.py",
    packages=("django<6.1", "django-reliable-outbox[redis]==0.1.1", "psycopg[binary]"),
    python=(3, 12),
)


class Absent(Exception):
    """A rival cannot be run here."""


class Rival:
    """A rival in its own process."""

    def __init__(self, process: Answering) -> None:
        self._process = process

    def measure(self, asked: str) -> Callable[[], float]:
        """Return what asks for this, and returns the value that the rival measured."""
        return lambda: float(self._process.ask(asked))


@contextmanager
def rival(kit: Kit, **given: object) -> Iterator[Rival]:
    """Install a rival in a throw-away environment and start it; raises Absent without a Python that it runs on.

    given: what its script gets as JSON, beside `database`, the bench's as Django's settings: there it has a schema of
    its own.
    """
    argument = json.dumps({"database": _address(), **given})
    with tempfile.TemporaryDirectory(prefix="deadletters-rival-") as folder:
        python = _installed(kit, folder) if kit.packages else sys.executable
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        with Answering([python, "-I", str(HERE / kit.script), argument], environment) as process:
            yield Rival(process)


def _installed(kit: Kit, folder: str) -> str:
    machine.say(f"installing {', '.join(kit.packages)}")
    subprocess.run([_python(kit), "-m", "venv", folder], check=True)
    python = str(Path(folder) / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *kit.packages]
    subprocess.run(install, check=True, stdout=sys.stderr)
    return python


def _python(kit: Kit) -> str:
    asks = f"import sys; sys.exit(sys.version_info < {kit.python})"
    for python in PYTHONS:
        try:
            if not subprocess.run([python, "-c", asks], stderr=subprocess.DEVNULL, check=False).returncode:
                return python
        except FileNotFoundError:
            continue
    raise Absent(f"{kit.script} wants Python {'.'.join(map(str, kit.python))}, and none is in the PATH")


def _address() -> dict[str, str]:
    known = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    parameters = connection.get_connection_params()
    return {theirs: str(parameters.get(ours) or "") for theirs, ours in known.items()}
