"""This process as a row of `wh_service_instances`: who drains, on which build, for which types."""

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from queues.conf import conf
from queues.models import ServiceInstance
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


def beat(*, draining: str | None) -> None:
    """Say that this process lives, and what it drains now."""
    instance = current()
    metadata = {
        "generation": conf().generation,
        "types": list(registry.types()),
        "perspectives": {known.perspective: list(known.event_types) for known in registry.projections()},
        "draining": draining,
    }
    ServiceInstance.objects.update_or_create(
        instance_id=instance.id,
        defaults={"last_heartbeat_at": Now(), "metadata": metadata},
        create_defaults={
            "service_name": conf().service,
            "host_name": socket.gethostname()[:200],
            "process_id": instance.process_id,
            "metadata": metadata,
        },
    )


def draining_elsewhere(source: str) -> int:
    """Return how many other live processes drain the source."""
    return _live().filter(metadata__draining=source).exclude(instance_id=current().id).count()


def is_handled_somewhere(message_type: str, perspective: str | None = None) -> bool:
    """Say whether any live process handles the type, or applies events of the type to the perspective."""
    if perspective is None:
        return _live().filter(metadata__types__contains=[message_type]).exists()
    return _live().filter(metadata__perspectives__contains={perspective: [message_type]}).exists()


def forget(instance_id: UUID) -> None:
    """Forget a process that is known to be gone: it drains nothing any more."""
    ServiceInstance.objects.filter(instance_id=instance_id).delete()


def forget_the_dead() -> None:
    """Delete rows of processes that have been silent for a day."""
    ServiceInstance.objects.filter(last_heartbeat_at__lt=Now() - timedelta(days=1)).delete()


def _live() -> QuerySet[ServiceInstance]:
    silent = timedelta(seconds=conf().instance_timeout_seconds)
    return ServiceInstance.objects.filter(last_heartbeat_at__gt=Now() - silent)
