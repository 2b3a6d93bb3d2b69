"""The whole product from one command: services, preparation, processes, and the line that says where it is."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from deadletters.embedded import processes
from deadletters.embedded.errors import CannotStart
from deadletters.embedded.logs import rotate, tail
from deadletters.embedded.places import Places, data_dir, make_data_dir, make_folder
from deadletters.embedded.services import held, services
from deadletters.embedded.supervisor import LOOK_SECONDS, Child, Supervisor
from deadletters.project.celery import READY_FILE
from deadletters.project.environment import env, given_broker_url, given_database_url
from deadletters.project.prepare import ADMINISTRATOR

HOST = "127.0.0.1"
DEFAULT_PORT = 8300
PORTS_TRIED = 100
READY_SECONDS = 60.0
WEB_THREADS = 8
SETTINGS = "deadletters.project.settings"
QUEUES = "inbox,outbox,perspective,recovery"
STOP: processes.Stop = ((signal.SIGTERM, 10), (signal.SIGKILL, 5))
STOP_WORKER: processes.Stop = ((signal.SIGTERM, 15), (signal.SIGQUIT, 3), (signal.SIGKILL, 5))


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What the preparation found."""

    password: str | None
    """None when the administrator's password is not the one in the login file."""
    has_demo: bool


def run() -> int:
    """Run everything until a signal; returns the exit code."""
    places = Places(data=data_dir(env.text("DEADLETTERS_DATA_DIR")))
    database, broker = given_database_url(), given_broker_url()
    wants_demo = env.flag("DEADLETTERS_DEMO", default=not (database or broker))
    make_data_dir(places.data)
    with held(places) as hold:
        port = free_port()
        url = f"http://{HOST}:{port}/"
        hold.say(url)
        made = services(places, database=not database, broker=not broker)
        environment = os.environ | made.environment | _children_environment(places)
        supervisor = Supervisor(services=made, children=[], say=_say)
        try:
            made.start()
            prepared = _prepare(places, environment)
            supervisor.children = _children(places, environment, port, demo=wants_demo and prepared.has_demo)
            _start(supervisor, places, port)
            _say(_welcome(url, prepared, places))
            supervisor.keep()
        except (KeyboardInterrupt, SystemExit):
            _say("Stopping.")
        finally:
            supervisor.stop()
    return 0


def free_port() -> int:
    """Return the port to listen on: DEADLETTERS_PORT, or the first free one from 8300 on."""
    if env.text("DEADLETTERS_PORT"):
        port = env.number("DEADLETTERS_PORT", default=DEFAULT_PORT, least=1, most=65535)
        if problem := _problem_with(port):
            raise CannotStart(f"Port {port} cannot be used ({problem}): set DEADLETTERS_PORT to another one.")
        return port
    for port in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        if not _problem_with(port):
            return port
    raise CannotStart(f"No port from {DEFAULT_PORT} on is free: set DEADLETTERS_PORT.")


def _problem_with(port: int) -> str | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as exc:
            return (exc.strerror or str(exc)).lower()
    return None


def _children_environment(places: Places) -> dict[str, str]:
    return {
        "DEADLETTERS_DATA_DIR": str(places.data),
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "PYTHONUNBUFFERED": "1",
        READY_FILE: str(_ready_file(places)),
        processes.CHILD_OF: str(places.data),
    }


def _ready_file(places: Places) -> Path:
    return places.data / "run" / "worker-ready"


def _prepare(places: Places, environment: dict[str, str]) -> Prepared:
    """Migrate, make the administrator and collect the static files, in a process of their own."""
    log = places.logs / "prepare.log"
    rotate(log)
    with log.open("ab") as file:
        command = [sys.executable, "-m", "deadletters.project.prepare"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=file, check=False)
    if done.returncode:
        last = (tail(log).strip().splitlines() or ["nothing was said"])[-1]
        raise CannotStart(f"{last}\nThe preparation failed: see {log}.")
    return Prepared(**json.loads(done.stdout.splitlines()[-1]))


def _children(places: Places, environment: dict[str, str], port: int, *, demo: bool) -> list[Child]:
    def child(name: str, *arguments: str, stop: processes.Stop = STOP) -> Child:
        argv = [sys.executable, "-m", *arguments]
        log = places.logs / f"{name}.log"
        command = processes.Command(argv=argv, folder=Path.cwd(), log=log, environment=environment, stop=stop)
        return Child(name=name, command=command)

    celery = ("celery", "-A", "deadletters.project")
    made = [
        child("web", *_granian(port)),
        child("worker", *celery, "worker", *_worker(port), stop=STOP_WORKER),
        child("beat", *celery, "beat", "--loglevel", "INFO", "--pidfile="),  # a pid file could only be stale
    ]
    return [*made, child("demo", "django", "demo_shop")] if demo else made


def _granian(port: int) -> list[str]:
    """Return the web server's arguments: one process, enough threads for a team of operators."""
    where = ["--host", HOST, "--port", str(port), "--interface", "wsgi", "--log-level", "warning"]
    return ["granian", *where, "--blocking-threads", str(WEB_THREADS), "deadletters.project.wsgi:application"]


def _worker(port: int) -> list[str]:
    """Return the worker's arguments; the port tells two of them on one machine apart."""
    name = ["--hostname", f"worker-{port}@%h", "--without-mingle", "--without-gossip", "--loglevel", "INFO"]
    return ["-Q", QUEUES, "--pool", "prefork", "--concurrency", str(os.cpu_count() or 1), *name]


def _start(supervisor: Supervisor, places: Places, port: int) -> None:
    """Start the children and wait until the web server answers and the worker takes tasks."""
    ready = _ready_file(places)
    make_folder(ready.parent)
    ready.unlink(missing_ok=True)
    supervisor.start()
    limit = time.monotonic() + READY_SECONDS
    while not (_answers(port) and ready.exists()):
        supervisor.refuse_deaths()
        if time.monotonic() > limit:
            silent = "worker" if _answers(port) else "web server"
            raise CannotStart(f"The {silent} is not ready after {READY_SECONDS:.0f} seconds: see {places.logs}.")
        time.sleep(LOOK_SECONDS / 4)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("HEAD", "/healthz")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _welcome(url: str, prepared: Prepared, places: Places) -> str:
    password = prepared.password or "changed by you"
    return f"{url}  user: {ADMINISTRATOR}  password: {password}  (logs: {places.logs}; stop: Ctrl-C)"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
