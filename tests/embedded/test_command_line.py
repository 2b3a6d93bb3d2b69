"""`deadletters services` and `deadletters run` as a person uses them: real processes, ports and signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from deadletters.embedded import processes
from tests.embedded.conftest import LIMIT_SECONDS, Starter, until

READY = re.compile(r"(http://127\.0\.0\.1:(\d+)/)  user: (\S+)  password: (\S+)")
SAY_URLS = "import json, os; e = os.environ; print(json.dumps([e['DATABASE_URL'], e['CELERY_BROKER_URL']]), flush=True)"


def finish(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=LIMIT_SECONDS)[0]


def server_pids(data: Path) -> list[int]:
    """Return the processes that work in the data directory."""
    found = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in found if any(processes.works_in(pid, data / name) for name in ("postgres", "valkey"))]


def ready(process: subprocess.Popen[str]) -> re.Match[str]:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if match := READY.search(line):
            return match
    raise AssertionError("it ended: " + "".join(said))


def test_services_pass_the_exit_code_on(start: Starter) -> None:
    process = start("services", "--", "sh", "-c", "exit 7")

    assert finish(process) == ""
    assert process.returncode == 7


def test_services_pass_arguments_on_as_they_are(start: Starter) -> None:
    process = start("services", "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "-x", "--", "a b")

    assert finish(process) == "['-x', '--', 'a b']\n"


@pytest.mark.parametrize(("options", "fsync"), [([], "off"), (["--durable"], "on")])
def test_temporary_services_wait_for_the_disk_only_where_it_is_asked_for(
    start: Starter, options: list[str], fsync: str
) -> None:
    asks = 'psql "$DATABASE_URL" -Atc "SHOW fsync"'
    process = start("services", *options, "--", "sh", "-c", asks, DEADLETTERS_DATA_DIR="")

    assert finish(process) == f"{fsync}\n"


def test_services_leave_the_choice_of_settings_to_the_command(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    process = start("services", "--", sys.executable, "-c", "import os; print(os.getenv('DJANGO_SETTINGS_MODULE'))")

    assert finish(process) == "None\n"


def test_services_say_when_there_is_no_such_command(start: Starter) -> None:
    process = start("services", "--", "no-such-command")

    assert finish(process) == "There is no command 'no-such-command'.\n"
    assert process.returncode == 1


def test_services_use_the_servers_that_are_given(start: Starter, place: Path) -> None:
    given = {"DATABASE_URL": "postgresql://user@example.test/name", "CELERY_BROKER_URL": "redis://example.test"}
    process = start("services", "--", sys.executable, "-c", SAY_URLS, **given)

    assert json.loads(finish(process)) == list(given.values())
    assert not (place / "data" / "postgres").exists()


def test_services_without_a_data_directory_leave_nothing_behind(start: Starter) -> None:
    code = "import os; print(os.environ['DEADLETTERS_DATA_DIR'])"
    process = start("services", "--", sys.executable, "-c", code, DEADLETTERS_DATA_DIR="")

    data = Path(finish(process).strip())

    assert process.returncode == 0
    assert data.name.startswith("deadletters-")
    assert not data.exists()


def test_servers_end_with_their_killed_parent(start: Starter, place: Path) -> None:
    process = start("services", "--", sys.executable, "-c", SAY_URLS + "; input()")
    assert process.stdout is not None
    process.stdout.readline()
    assert len(server_pids(place / "data")) >= 2

    process.kill()

    until(lambda: not server_pids(place / "data"), "the servers end")


def test_a_watchdog_ends_processes_where_the_system_does_not(place: Path) -> None:
    watched = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    forgotten = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lines = f"{watched.pid} 15\n{forgotten.pid} 15\n{forgotten.pid} 0\n"

    subprocess.run([sys.executable, processes.watchdog.__file__], input=lines, text=True, check=True)

    assert watched.wait(LIMIT_SECONDS) == -signal.SIGTERM
    assert forgotten.poll() is None
    for process in (watched, forgotten):
        process.communicate(b"\n")


def test_a_port_in_use_is_one_sentence(start: Starter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("run", DEADLETTERS_PORT=str(port))

        said = finish(process)

    assert said == f"Port {port} cannot be used (address already in use): set DEADLETTERS_PORT to another one.\n"
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEADLETTERS_PORT", "no"),
        ("DEADLETTERS_DEMO", "maybe"),
        ("DATABASE_URL", "mysql://h/d"),
        ("CELERY_BROKER_URL", "ftp://h"),
        ("DEADLETTERS_DATA_DIR", "/dev/null/data"),
    ],
)
def test_a_bad_value_is_one_sentence_that_names_it(start: Starter, name: str, value: str) -> None:
    process = start("run", **{name: value})

    said = finish(process)

    assert said.count("\n") == 1
    assert said.startswith((f"{name}: ", "/dev/null/data cannot be used: "))
    assert process.returncode == 1


def test_a_database_out_of_reach_is_said_without_a_traceback(start: Starter) -> None:
    url = "postgresql://user:secret@127.0.0.1:1/name"
    process = start("run", DATABASE_URL=url, CELERY_BROKER_URL="redis://127.0.0.1:1")

    said = finish(process)

    assert said.startswith("The database of DATABASE_URL cannot be used: ")
    assert "Traceback" not in said
    assert "secret" not in said
    assert process.returncode == 1


def test_the_whole_product_runs_restarts_and_stops(start: Starter, place: Path) -> None:
    data = place / "data"
    process = start("run", DEADLETTERS_DEMO="off")
    url, port, user, password = ready(process).groups()
    assert signs_in(url, user, password)

    second = start("run")
    assert finish(second) == f"deadletters is already running at {url} (process {process.pid}).\n"
    assert second.returncode == 1

    before = set(processes.leftovers(data))
    beat = next(pid for pid in before if b"\0beat\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(beat, signal.SIGKILL)
    until(lambda: len(set(processes.leftovers(data)) - before) == 1, "the schedule starts again")

    for pid in [process.pid, *processes.leftovers(data), *server_pids(data)]:
        with suppress(ProcessLookupError):  # the death of one ends others
            os.kill(pid, signal.SIGKILL)
    again = start("run", DEADLETTERS_PORT=port, DEADLETTERS_DEMO="off")
    assert ready(again).groups() == (url, port, user, password)
    assert signs_in(url, user, password)

    again.terminate()
    finish(again)
    assert again.returncode == 0
    until(lambda: not [*processes.leftovers(data), *server_pids(data)], "everything stops")


def signs_in(url: str, user: str, password: str) -> bool:
    cookies = CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    page = url + "admin/login/?next=/admin/"
    browser.open(page).close()
    token = next(cookie.value for cookie in cookies if cookie.name == "csrftoken")
    form = {"username": user, "password": password, "csrfmiddlewaretoken": token or ""}
    with browser.open(urllib.request.Request(page, urllib.parse.urlencode(form).encode())) as answer:
        return str(answer.url) == url + "admin/"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the other tests as one")
def test_as_an_ordinary_user_the_servers_are_their_own(place: Path) -> None:
    """The interpreter may lie where only root can reach it, so it becomes somebody else after its imports."""
    os.chown(place, 65534, 65534)
    code = (
        "import os, sys, runpy, deadletters.project.around as around, deadletters.project.__main__ as command\n"
        "import encodings.idna, psycopg, redis, psycopg._conninfo_attempts\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(command.main(['services', '--', 'sh', '-c', 'id -u; stat -c %u \"$DEADLETTERS_DATA_DIR\"/*']))"
    )
    environment = os.environ | {"DEADLETTERS_DATA_DIR": str(place / "data"), "HOME": str(place)}

    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True)

    assert done.stderr == ""
    assert set(done.stdout.split()) == {"65534"}
    assert done.returncode == 0
