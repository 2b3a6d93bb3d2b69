"""This process as a row of `wh_service_instances`: who drains, on which build, for which types.

The row's metadata is an object:

- `generation`: the deployed build; `types`: message types that the process handles; `perspectives`: of each
  perspective that it projects the event types.
- `draining`: the source that it drains now, or null.
- `message`: what has been running for more than a second, or null: {"id", "type", "attempt", "started_at"}.
- `ticked_at`: when it last served a wake-up or tick; absent before the first.

`last_heartbeat_at` moves with each of these, and while a drain goes on. A row stays when its process ends: until
it has been silent for INSTANCE_TIMEOUT_SECONDS its types count as handled, so that a restart kills no message.
"""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from queues.conf import conf
from queues.models import ServiceInstance
from queues.store import presence
from queues.store.presence import Build, Process, Running
from queues.words.handlers import registry


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One process; a fork of it is another one."""

    id: UUID
    process_id: int


_current: Instance | None = None


def current() -> Instance:
    """Return this process's instance; a new one after a fork."""
    global _current
    if _current is None or _current.process_id != os.getpid():
        _current = Instance(id=uuid7(), process_id=os.getpid())
    return _current


def tick() -> None:
    """Say that this process serves a wake-up or a tick."""
    presence.say(_process(), _build(), ticked=True)


def take_place(source: str, at_most: int | None) -> bool:
    """Say that this process drains the source, unless `at_most` live ones do already; return whether it may.

    Those who ask at once are asked in turn, so that exactly as many get a place as there are.
    """
    with transaction.atomic():
        presence.lock_places(source)
        if at_most is not None and draining_elsewhere(source) >= at_most:
            return False
        presence.say(_process(), {**_build(), "draining": source, "message": None})
    return True


def give_up_place() -> None:
    """Say that this process drains nothing."""
    presence.say(_process(), presence.IDLE)


def keep_alive(running: Running | None) -> None:
    """Say that the drain goes on, and what has been running for long; raises DatabaseError when the row is locked.

    It may be locked by the very transaction in which somebody drains, and waits for the one that says it.
    """
    with presence.impatient():
        presence.say(_process(), {} if running else {"message": None}, running=running)


def _process() -> Process:
    instance = current()
    host = socket.gethostname()[:200]
    return Process(instance_id=instance.id, service=conf().service, host=host, process_id=instance.process_id)


def _build() -> dict[str, Any]:
    return {
        "generation": conf().generation,
        "types": list(registry.types()),
        "perspectives": {known.perspective: list(known.event_types) for known in registry.projections()},
    }


def draining_elsewhere(source: str) -> int:
    """Return how many other live processes drain the source."""
    return _live().filter(metadata__draining=source).exclude(instance_id=current().id).count()


def is_handled_somewhere(message_type: str, perspective: str | None = None) -> bool:
    """Say whether any live process handles the type, or applies events of the type to the perspective."""
    if perspective is None:
        return _live().filter(metadata__types__contains=[message_type]).exists()
    return _live().filter(metadata__perspectives__contains={perspective: [message_type]}).exists()


def live_builds() -> Sequence[Build]:
    """Return the builds that live processes run, by service and name."""
    return presence.builds(conf().instance_timeout_seconds)


def forget_the_dead() -> None:
    """Delete rows of processes that have been silent for a day."""
    ServiceInstance.objects.filter(last_heartbeat_at__lt=Now() - timedelta(days=1)).delete()


def _live() -> QuerySet[ServiceInstance]:
    silent = timedelta(seconds=conf().instance_timeout_seconds)
    return ServiceInstance.objects.filter(last_heartbeat_at__gt=Now() - silent)
