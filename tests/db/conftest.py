"""What the database tests share: handlers of one test, rows as they are, time that passes at once."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection

from queues import NewMessage, projects, send, send_many
from queues.perspectives import subscribe
from queues.words.handlers import Registry
from tests.db.sources import DESTINATION, QUEUES, Work, working
from tests.factories import a_user


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """Run actions in threads that start together, each on a connection of its own; return what they returned."""
    barrier = threading.Barrier(len(actions), timeout=20)

    def run(action: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait()
            return action()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(run, actions, timeout=60))


def until_somebody_waits_for_a_lock() -> None:
    """Return once a session of this database waits for another's lock; the deadline is for a lock that is not there."""
    until = time.monotonic() + 10
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    count = 0
    while not count:
        assert time.monotonic() < until, "nobody waits for a lock"
        with connection.cursor() as cursor:
            cursor.execute(waiting)
            (count,) = cursor.fetchone()


INSTANCE = UUID(int=7)


def move_by_hand(source_id: UUID, *, source: str = "wh_inbox", error: str | None = "boom", **named: Any) -> UUID | None:
    """Move a row as a mover in plain SQL does, with the seven arguments of the source and any others by name."""
    extra = "".join(f", p_{name} => %s" for name in named)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT move_to_dead_letters(gen_random_uuid(), %s, %s, 2, %s, %s, 'build-1'{extra})",
            [source, source_id, error, INSTANCE, *named.values()],
        )
        return cursor.fetchone()[0]


def send_numbers(count: int, stream: str | None = None) -> None:
    """Send messages of the type test.N whose payloads count from 0."""
    send_many([NewMessage(type="test.N", payload=n, stream=stream) for n in range(count)])


@pytest.fixture
def sql() -> Callable[..., list[dict[str, Any]]]:
    """Run a statement and return its rows as dictionaries."""

    def run(statement: str, *arguments: Any) -> list[dict[str, Any]]:
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return run


@pytest.fixture
def inbox_row(sql: Callable[..., Any]) -> Callable[[UUID], dict[str, Any] | None]:
    """Return a message's row, or None."""

    def row(message_id: UUID) -> dict[str, Any] | None:
        return next(iter(sql("SELECT * FROM wh_inbox WHERE message_id = %s", message_id)), None)

    return row


@pytest.fixture
def time_passes(sql: Callable[..., Any]) -> Callable[[], None]:
    """Make every waiting message due, as if its back-off or delay were over."""

    def passes() -> None:
        sql("UPDATE wh_inbox SET scheduled_for = now() - interval '1 second' WHERE scheduled_for > now()")
        sql("UPDATE wh_streams SET due_at = now() - interval '1 second' WHERE due_at > now()")

    return passes


@pytest.fixture
def leases_lapse(sql: Callable[..., Any]) -> Callable[[], None]:
    """Let every lease run out."""

    def lapse() -> None:
        sql("UPDATE wh_inbox SET lease_expiry = now() - interval '1 second' WHERE lease_token IS NOT NULL")
        sql("UPDATE wh_streams SET lease_expiry = now() - interval '1 second' WHERE lease_token IS NOT NULL")

    return lapse


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Change settings of the queues."""

    def change(**named: Any) -> None:
        settings.QUEUES = {**settings.QUEUES, **named}

    return change


@pytest.fixture(params=QUEUES, ids=[queue.source for queue in QUEUES])
def work(
    request: pytest.FixtureRequest, handlers: Registry, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Work:
    """Return each of the three sources in turn, with runs that the test decides."""
    configure(ROUTES={DESTINATION: "inbox"})
    return working(request.param, monkeypatch)


@pytest.fixture
def effects(sql: Callable[..., Any]) -> Iterator[Callable[[], list[str]]]:
    """Give runs a table `test_effects` to write to, and return what reads it in the order of the writes."""
    sql("CREATE TABLE test_effects (n bigint GENERATED ALWAYS AS IDENTITY, payload text NOT NULL)")
    yield lambda: [row["payload"] for row in sql("SELECT payload FROM test_effects ORDER BY n")]
    sql("DROP TABLE test_effects")


@pytest.fixture
def ann(db: None) -> User:
    """A user who may recover and triage."""
    return a_user("ann", "Operators")


@pytest.fixture
def lea(db: None) -> User:
    """A user who may edit and purge as well."""
    return a_user("lea", "Leads")


@pytest.fixture
def olga(db: None) -> User:
    """Another one who may recover and triage."""
    return a_user("olga", "Operators")


@pytest.fixture
def shop(handlers: Registry) -> Any:
    """A handler of test.N that is broken until the test mends it."""
    from tests.db.runs import Shop

    return Shop()


@pytest.fixture
def project(handlers: Registry) -> Callable[..., dict[str, Any]]:
    """Register a projection that notes what it applies, and raises what it is told to; subscribe it."""

    def register(name: str = "totals", *event_types: str, **options: Any) -> dict[str, Any]:
        state: dict[str, Any] = {"applied": [], "raises": {}}

        @projects(name, *(event_types or ("test.Happened",)), **options)
        def apply(message: Any) -> None:
            send("test.Effect", {"perspective": name, "version": message.meta.version})
            if message.meta.version in state["raises"]:
                raise state["raises"][message.meta.version]
            state["applied"].append(message)

        subscribe()
        return state

    return register


@pytest.fixture
def all_due(sql: Callable[..., Any]) -> Callable[[], None]:
    """Make every event due, as if its back-off were over."""

    def due() -> None:
        sql("UPDATE wh_perspective_events SET scheduled_for = now() - interval '1 second'")
        sql("UPDATE wh_streams SET due_at = now() - interval '1 second'")

    return due
