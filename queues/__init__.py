"""Queues in PostgreSQL, drained by Celery workers.

The public names load on first use, so that `from queues import send` works before Django's apps are ready.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queues.outbox import publish
    from queues.perspectives import Appended, append_event
    from queues.sending import Receipt, send, send_many
    from queues.words.errors import InvalidMessage, VersionConflict
    from queues.words.failures import Failure, Subject, attribute, attributed, attribution, detail
    from queues.words.handlers import handles, on_dead_letter, projects
    from queues.words.messages import Message, NewMessage
    from queues.words.outcomes import Delay, Terminal
    from queues.words.reactions import DeadLetter

_HOMES = {
    "Appended": "queues.perspectives",
    "DeadLetter": "queues.words.reactions",
    "Delay": "queues.words.outcomes",
    "Failure": "queues.words.failures",
    "InvalidMessage": "queues.words.errors",
    "Message": "queues.words.messages",
    "NewMessage": "queues.words.messages",
    "Receipt": "queues.sending",
    "Subject": "queues.words.failures",
    "Terminal": "queues.words.outcomes",
    "VersionConflict": "queues.words.errors",
    "append_event": "queues.perspectives",
    "attribute": "queues.words.failures",
    "attributed": "queues.words.failures",
    "attribution": "queues.words.failures",
    "detail": "queues.words.failures",
    "handles": "queues.words.handlers",
    "on_dead_letter": "queues.words.handlers",
    "projects": "queues.words.handlers",
    "publish": "queues.outbox",
    "send": "queues.sending",
    "send_many": "queues.sending",
}

__all__ = [
    "Appended",
    "DeadLetter",
    "Delay",
    "Failure",
    "InvalidMessage",
    "Message",
    "NewMessage",
    "Receipt",
    "Subject",
    "Terminal",
    "VersionConflict",
    "append_event",
    "attribute",
    "attributed",
    "attribution",
    "detail",
    "handles",
    "on_dead_letter",
    "projects",
    "publish",
    "send",
    "send_many",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
