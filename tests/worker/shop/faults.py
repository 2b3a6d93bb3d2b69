"""Kills this process at a named point between claim and commit, the first time that a test's process gets there.

TEST_KILL_AT: names of POINTS, separated by commas. TEST_MARKS: a folder in which a point that has killed leaves its
name, so that the next process gets past it. The product knows nothing of this: its functions are wrapped from here.
"""

import os
import signal
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from django.utils.module_loading import import_string

Point = Callable[[Callable[[], None]], None]
"""Wraps something, so that what it is given is called when the point is reached."""

VICTIM = "victim"
"""The payload of the message that the points about one message mean."""


def arm() -> None:
    """Wrap what the wanted points are about."""
    for name in filter(None, os.environ.get("TEST_KILL_AT", "").split(",")):
        POINTS[name](lambda name=name: _die(name))


def _die(name: str) -> None:
    mark = Path(os.environ["TEST_MARKS"]) / name
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _owner(path: str) -> Any:
    """Return a module or a class by its dotted path."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        return import_string(path)


def _before(path: str, when: Callable[..., bool] = lambda *_: True) -> Point:
    """Return a point before a function is called with arguments of which `when` says so."""
    return _around(path, before=when)


def _after(path: str, when: Callable[..., bool] = lambda *_: True) -> Point:
    """Return a point after a function has returned; `when` is asked with its arguments."""
    return _around(path, after=when)


def _around(path: str, before: Callable[..., bool] | None = None, after: Callable[..., bool] | None = None) -> Point:
    owner_path, _, name = path.rpartition(".")

    def wrap(die: Callable[[], None]) -> None:
        owner = _owner(owner_path)
        whole = getattr(owner, name)

        def wrapped(*args: Any, **named: Any) -> Any:
            if before is not None and before(*args):
                die()
            result = whole(*args, **named)
            if after is not None and after(*args):
                die()
            return result

        setattr(owner, name, wrapped)

    return wrap


def _commit_of_a_record(*, after: bool) -> Point:
    """Return a point at the commit that follows a record: other transactions commit too."""
    recorded: list[bool] = []

    def note(*_: Any) -> bool:
        recorded.append(True)
        return False

    def is_it(*_: Any) -> bool:
        return bool(recorded)

    def wrap(die: Callable[[], None]) -> None:
        _after("queues.drainer.recording.write", note)(die)
        commit = "django.db.backends.base.base.BaseDatabaseWrapper._commit"
        (_after if after else _before)(commit, is_it)(die)

    return wrap


def _is_victim(message: Any, *_: Any) -> bool:
    return bool(message.payload == VICTIM)


def _is_victims_row(_transport: Any, message: Any) -> bool:
    return VICTIM in str(message.event_data)


def _has_claimed(*_: Any) -> bool:
    """Say whether somebody holds a claim now: claims that find nothing are no points."""
    from django.db import connection

    held = "SELECT lease_token FROM {} WHERE lease_token IS NOT NULL"
    tables = ("wh_inbox", "wh_outbox", "wh_perspective_events", "wh_streams")
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(held.format(table) for table in tables) + " LIMIT 1")
        return cursor.fetchone() is not None


_effect = "tests.worker.shop.handlers._effect"
_publish = "queues.transports.inbox.InboxTransport.publish"
POINTS: Mapping[str, Point] = {
    "after_claim": _after("queues.store.claims.claim", _has_claimed),
    "after_note": _after("queues.runfile.RunFile.claimed"),
    "after_start": _after("queues.store.claims.start"),
    "before_handler": _after("queues.runfile.RunFile._set_running", lambda _file, number: number == 3),
    "in_handler": _before(_effect, _is_victim),
    "after_effect": _after(_effect, _is_victim),
    "in_publish": _before(_publish, _is_victims_row),
    "after_publish": _after(_publish, _is_victims_row),
    "after_handler": _after("queues.drainer.runs._run"),
    "after_run": _before("queues.drainer.batch.note_duration"),
    "before_record": _before("queues.drainer.recording.write"),
    "after_fence": _after("queues.store.claims.Held.is_held"),
    "after_move": _after("deadletters.store.letters.Store.move"),
    "after_record": _after("queues.drainer.recording.record"),
    "before_commit": _commit_of_a_record(after=False),
    "after_commit": _commit_of_a_record(after=True),
    "before_release": _before("queues.store.claims.Held.release"),
    "after_release": _after("queues.store.claims.Held.release"),
    "before_close": _before("queues.runfile.RunFile.close"),
    "before_charge": _before("queues.drainer.losses._charge"),
    "after_charge": _after("queues.drainer.losses._charge"),
    "after_register": _after("deadletters.queries.replays.register"),
    "after_begin": _after("deadletters.recovery.runs.begin"),
    "after_freeze": _after("deadletters.recovery.freezing._insert"),
    "before_send": _before("deadletters.store.runs.send"),
    "after_send": _after("deadletters.store.runs.send"),
    "after_step": _after("deadletters.recovery.stepping._step_next"),
    "before_skip": _before("deadletters.store.runs.skip_waiting"),
    "after_skip": _after("deadletters.store.runs.skip_waiting"),
    "before_settle": _before("deadletters.store.letters.Store.settle"),
    "after_settle": _after("deadletters.store.letters.Store.settle"),
    "after_page": _after("deadletters.generations._note"),
    "before_sweep_release": _before("queues.drainer.losses.log_without_run"),
}
