"""PostgreSQL in a data directory: made, started, stopped, and taken back after a crash."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from deadletters.embedded import processes
from deadletters.embedded.addresses import DATABASE, ROLE, database_password, database_url
from deadletters.embedded.errors import CannotStart, unusable
from deadletters.embedded.logs import reason, tail
from deadletters.embedded.places import Places, make_folder, private_text
from deadletters.embedded.programs import Runner, postgres_programs

SUPERUSER = "postgres"
START_SECONDS = 60.0
STOP: processes.Stop = ((signal.SIGINT, 20), (signal.SIGQUIT, 5), (signal.SIGKILL, 5))
"""Fast shutdown (open sessions are ended), then the immediate one, which is a crash that is recovered from."""

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "jit": "off",  # compiling costs more than our short statements take
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",  # the launcher reads some messages
}
THROWN_AWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings for data that nobody keeps."""


@dataclass(kw_only=True)
class Postgres:
    """One PostgreSQL server; the caller holds the lock of the data directory."""

    places: Places
    who: Runner | None
    keep: bool = True
    programs: Path = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.programs = postgres_programs(self.places, self.who)

    @property
    def log(self) -> Path:
        return self.places.logs / "postgres.log"

    def start(self) -> None:
        """Start the server and wait until our role can use our database."""
        self._check_version()
        self._clear_the_way()
        if not self.places.postgres.exists():
            self._make_cluster()
        limit = time.monotonic() + START_SECONDS
        while not self._attempt(limit):
            time.sleep(0.1)
        self._provide_database()

    def stop(self) -> None:
        """Stop the server, ending open sessions."""
        if self.process is not None:
            processes.stop(self.process, STOP)
            self.process = None

    def _check_version(self) -> None:
        """Refuse data of another major version, which this one can neither read nor convert alone."""
        with suppress(FileNotFoundError):
            theirs = (self.places.postgres / "PG_VERSION").read_text().strip()
            command = [str(self.programs / "postgres"), "-V"]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            ours = shown.split()[2].split(".")[0]
            if theirs != ours:
                raise CannotStart(_other_version(self.places, theirs, ours))

    def _clear_the_way(self) -> None:
        """Stop a server that an earlier start left behind, then remove what it noted.

        PostgreSQL believes a pid file whose pid is a zombie or has become somebody else's.
        """
        pid_file = self.places.postgres / "postmaster.pid"
        with suppress(FileNotFoundError, ValueError, IndexError):
            pid = int(pid_file.read_text().split()[0])
            if pid > 0 and processes.works_in(pid, self.places.postgres):
                processes.stop_pid(pid, STOP)
        for stale in (pid_file, *self.places.sockets.glob(".s.PGSQL.*")):
            stale.unlink(missing_ok=True)

    def _make_cluster(self) -> None:
        """Make the cluster beside its place and move it there, so that a half-made one is never started."""
        made = self.places.postgres.with_name("postgres.new")
        password = self.places.sockets / ".initdb"
        shutil.rmtree(made, ignore_errors=True)
        make_folder(made, owner=self._owner)
        try:
            password.touch(mode=0o600)
            password.write_text(self._superuser_password())
            if self.who:
                os.chown(password, self.who.uid, self.who.gid)
            self._initdb(made, password)
            made.rename(self.places.postgres)
        except OSError as exc:
            raise unusable(self.places.data, exc) from exc
        finally:
            password.unlink(missing_ok=True)

    def _initdb(self, made: Path, password: Path) -> None:
        who = {"user": self.who.uid, "group": self.who.gid, "extra_groups": []} if self.who else {}
        command = [self.programs / "initdb", "-D", made, "-U", SUPERUSER, f"--pwfile={password}"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if not self.keep:
            command += ["--no-sync"]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False, **who)  # type: ignore[call-overload]
        if done.returncode:
            with self.log.open("a") as log:
                log.write(done.stdout + done.stderr)
            shutil.rmtree(made, ignore_errors=True)
            raise reason("PostgreSQL", done.stderr, self.log, self.places.data)

    def _attempt(self, limit: float) -> bool:
        """Start the server once; False when what is left of a killed one is still going, worth a retry."""
        before = self.log.stat().st_size if self.log.exists() else 0
        self.process = processes.start(self.command())
        while self.process.poll() is None:
            if self._answers():
                return True
            if time.monotonic() > limit:
                self.stop()
                raise CannotStart(f"PostgreSQL does not answer after {START_SECONDS:.0f} seconds: see {self.log}.")
            time.sleep(processes.POLL_SECONDS)
        said = tail(self.log, since=before)
        if "shared memory block" in said and time.monotonic() < limit:
            return False
        raise reason("PostgreSQL", said, self.log, self.places.data)

    def command(self) -> processes.Command:
        """Return how the server is run."""
        settings = SETTINGS | ({} if self.keep else THROWN_AWAY)
        settings["unix_socket_directories"] = _quoted(self.places.sockets)
        argv: list[str | Path] = [self.programs / "postgres", "-D", self.places.postgres]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        return processes.Command(argv=argv, folder=self.places.postgres, log=self.log, stop=STOP, who=self.who)

    def _answers(self) -> bool:
        """Say whether the server lets anybody in; a refused password is an answer."""
        try:
            psycopg.connect(self._superuser("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError as exc:
            return "password authentication failed" in str(exc)
        return True

    def _provide_database(self) -> None:
        """Make our role and our database where they are missing; set the role's password when it is not the file's."""
        with suppress(psycopg.OperationalError):
            psycopg.connect(database_url(self.places.data), connect_timeout=5).close()
            return
        try:
            with psycopg.connect(self._superuser("postgres"), autocommit=True, connect_timeout=5) as connection:
                _provide(connection, database_password(self.places.data))
        except psycopg.Error as exc:
            self.stop()
            raise CannotStart(f"The embedded PostgreSQL cannot be set up: {str(exc).splitlines()[0]}.") from exc

    def _superuser(self, database: str) -> str:
        host, password = str(self.places.sockets), self._superuser_password()
        return make_conninfo(host=host, user=SUPERUSER, password=password, dbname=database)

    def _superuser_password(self) -> str:
        return private_text(self.places.data / "superuser-password", secrets.token_hex)

    @property
    def _owner(self) -> tuple[int, int] | None:
        return (self.who.uid, self.who.gid) if self.who else None


def _provide(connection: psycopg.Connection, password: str) -> None:
    """Make the role (no superuser; it may create databases, which tests need) and its database."""
    names = {"role": sql.Identifier(ROLE), "database": sql.Identifier(DATABASE), "password": sql.Literal(password)}
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
        connection.execute(sql.SQL("CREATE ROLE {role}").format(**names))
    connection.execute(sql.SQL("ALTER ROLE {role} LOGIN CREATEDB PASSWORD {password}").format(**names))
    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
        connection.execute(sql.SQL("CREATE DATABASE {database} OWNER {role}").format(**names))


def _quoted(folder: Path) -> str:
    """Return a path as one element of a list setting."""
    return '"' + str(folder).replace('"', '""') + '"'


def _other_version(places: Places, theirs: str, ours: str) -> str:
    return (
        f"{places.postgres} holds data of PostgreSQL {theirs}, and this version runs PostgreSQL {ours}: "
        f"with PostgreSQL {theirs} run `pg_dump -Fc {DATABASE} > dump`, move the folder away, "
        f"then here `deadletters services -- sh -c 'pg_restore -d \"$DATABASE_URL\" dump'`."
    )
