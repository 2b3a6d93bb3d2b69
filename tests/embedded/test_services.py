"""The embedded servers, really started."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pytest
import redis

from deadletters.embedded import processes
from deadletters.embedded.errors import CannotStart
from deadletters.embedded.places import Places
from deadletters.embedded.services import Services, held, services


@contextmanager
def running(data: Path) -> Iterator[Services]:
    with held(Places(data=data)):
        made = services(Places(data=data), database=True, broker=True)
        try:
            made.start()
            yield made
        finally:
            made.stop()
            shutil.rmtree(made.places.sockets, ignore_errors=True)


def execute(made: Services, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(made.environment["DATABASE_URL"]) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def valkey(made: Services) -> redis.Redis:
    path = unquote(made.environment["CELERY_BROKER_URL"].removeprefix("redis+socket://"))
    return redis.Redis(unix_socket_path=path, single_connection_client=True, decode_responses=True)


def keep_something(made: Services) -> None:
    execute(made, "CREATE TABLE kept AS SELECT 42 AS answer")
    with valkey(made) as client:
        client.rpush("kept", "42")


def assert_kept(made: Services) -> None:
    assert execute(made, "SELECT answer FROM kept") == [(42,)]
    with valkey(made) as client:
        assert client.lrange("kept", 0, -1) == ["42"]


def kill(made: Services) -> None:
    for server in made.servers():
        assert server.process is not None
        server.process.kill()
        server.process.wait()


def test_servers_start_again_after_kill_with_their_data_kept(place: Path) -> None:
    with running(place / "data") as made:
        keep_something(made)
        kill(made)

        made.start()

        assert_kept(made)


def test_a_second_start_keeps_the_data(place: Path) -> None:
    with running(place / "data") as made:
        keep_something(made)

    with running(place / "data") as again:
        assert_kept(again)


def test_servers_that_an_earlier_start_left_running_are_stopped(place: Path) -> None:
    with running(place / "data") as left:
        keep_something(left)
        again = services(Places(data=place / "data"), database=True, broker=True)

        again.start()

        try:
            assert [server.process.wait(30) for server in left.servers() if server.process] == [0, 0]
            assert_kept(again)
        finally:
            again.stop()


def test_a_pid_file_with_a_reused_pid_is_no_obstacle(place: Path) -> None:
    with running(place / "data") as made:
        keep_something(made)
        kill(made)
        pid_file = place / "data" / "postgres" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
            pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]))

            made.start()

            assert stranger.poll() is None
            assert_kept(made)
            assert stranger.stdin is not None
            stranger.stdin.write(b"\n")


def test_two_data_directories_run_side_by_side(place: Path) -> None:
    with running(place / "one") as one, running(place / "two") as two:
        keep_something(one)

        assert execute(two, "SELECT to_regclass('kept')") == [(None,)]
        with valkey(two) as client:
            assert client.keys() == []


def test_a_data_directory_is_held_by_one_process_at_a_time(place: Path) -> None:
    places = Places(data=place / "data")
    with held(places) as hold:
        hold.say("http://127.0.0.1:8300/")

        with pytest.raises(CannotStart) as refused, held(places):
            pass

    said = f"deadletters is already running at http://127.0.0.1:8300/ (process {os.getpid()})."
    assert str(refused.value) == said


def test_data_of_another_major_version_are_refused_with_the_way_out(place: Path) -> None:
    with running(place / "data"):
        pass
    (place / "data" / "postgres" / "PG_VERSION").write_text("15\n")

    with pytest.raises(CannotStart, match=r"PostgreSQL 15.*pg_dump.*pg_restore"), running(place / "data"):
        pass


def test_a_half_made_cluster_is_made_again(place: Path) -> None:
    (place / "data" / "postgres.new").mkdir(parents=True)
    (place / "data" / "postgres.new" / "PG_VERSION").write_text("18\n")

    with running(place / "data") as made:
        assert execute(made, "SELECT 1") == [(1,)]


def test_a_lost_password_file_is_made_again(place: Path) -> None:
    with running(place / "data") as made:
        keep_something(made)
    (place / "data" / "database-password").unlink()

    with running(place / "data") as again:
        assert_kept(again)


def test_a_path_too_long_for_a_socket_still_works(place: Path) -> None:
    data = place / ("d" * 60) / ("e" * 60)
    with running(data) as made:
        assert execute(made, "SELECT 1") == [(1,)]
        assert not Places(data=data).sockets.is_relative_to(data)


def test_a_path_with_spaces_and_capitals_works(place: Path) -> None:
    with running(place / "Application Support" / 'It\'s 100% "mine", really') as made:
        keep_something(made)
        assert_kept(made)


def test_postgres_listens_on_a_private_socket_only_and_our_role_is_no_superuser(place: Path) -> None:
    with running(place / "data") as made:
        names = "listen_addresses", "unix_socket_permissions", "server_encoding", "fsync"
        assert [execute(made, f"SHOW {name}")[0][0] for name in names] == ["", "0700", "UTF8", "on"]
        assert execute(made, "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user") == [
            (False, True)
        ]
        assert (place / "data" / "sockets").stat().st_mode & 0o777 == 0o700
        assert (place / "data" / "database-password").stat().st_mode & 0o777 == 0o600
        url = made.environment["DATABASE_URL"].replace("deadletters:", "deadletters:not-")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(url)


def test_valkey_keeps_everything_and_throws_nothing_away(place: Path) -> None:
    with running(place / "data") as made, valkey(made) as client:
        names = "appendonly", "appendfsync", "maxmemory-policy", "port"
        assert [client.config_get(name)[name] for name in names] == ["yes", "everysec", "noeviction", "0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the servers to somebody else")
def test_as_root_the_servers_run_as_somebody_else(place: Path) -> None:
    with running(place / "data") as made:
        pids = [server.process.pid for server in made.servers() if server.process]
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in pids}

    assert 0 not in owners


@pytest.mark.skipif(os.geteuid() != 0, reason="only root meets folders that its servers' user cannot enter")
def test_as_root_a_folder_closed_to_the_servers_is_refused(place: Path) -> None:
    (place / "closed").mkdir(mode=0o700)

    with pytest.raises(CannotStart, match="cannot enter"), running(place / "closed" / "data"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root copies the programs")
def test_as_root_programs_out_of_reach_are_copied_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deadletters.embedded import programs

    data = place / "data"

    def enters(who: programs.Runner, folder: Path) -> bool:
        return folder.is_relative_to(data)

    monkeypatch.setattr(programs.Runner, "can_enter", enters)
    with running(data) as made:
        assert made.programs is not None
        assert made.programs.is_relative_to(data / "programs")
        copied_at = made.programs.stat().st_ino
        psql = [made.programs / "psql", made.environment["DATABASE_URL"], "-Atc", "SELECT 1"]
        assert subprocess.check_output(psql, text=True) == "1\n"  # finds the library that was copied beside it

    with running(data) as again:
        assert again.programs is not None
        assert again.programs.stat().st_ino == copied_at


def test_a_folder_of_somebody_else_is_not_taken_for_the_sockets(place: Path) -> None:
    data = place / "data"
    data.mkdir()
    (data / "sockets").symlink_to(place)

    with pytest.raises(CannotStart, match="belongs to somebody else"), running(data):
        pass


def test_stopping_ends_open_sessions(place: Path) -> None:
    with running(place / "data") as made, psycopg.connect(made.environment["DATABASE_URL"]) as connection:
        connection.execute("SELECT 1")
        assert made.postgres is not None
        assert made.postgres.process is not None
        process = made.postgres.process

        made.postgres.stop()

        assert process.returncode == 0
        connection.close()


def test_processes_left_by_an_earlier_start_are_found_by_their_mark(place: Path) -> None:
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    marked = os.environ | {processes.CHILD_OF: str(place)}
    with subprocess.Popen(command, env=marked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()

        assert list(processes.leftovers(place)) == [left.pid]
        assert list(processes.leftovers(place / "other")) == []
        left.send_signal(signal.SIGTERM)
