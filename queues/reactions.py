"""Reactions to deaths: who is told of them, and what they are told."""

from typing import Any
from uuid import UUID

from django.apps import apps as installed
from django.apps.registry import Apps

from queues import wakeups
from queues.conf import conf, dead_letter_store
from queues.store import reactions
from queues.words import reactions as words
from queues.words.errors import LetterGone
from queues.words.handlers import registry
from queues.words.messages import Message
from queues.words.reactions import Content, DeadLetter
from queues.words.sources import INBOX


def dead_letter_of(message: Message) -> DeadLetter:
    """Return what the handler of a reaction gets; raises PayloadUnreadable when the message tells of no letter."""
    return words.dead_letter_of(message, read=_read, limits=conf().payload_limits())


def _read(dead_letter_id: UUID) -> Content:
    store = dead_letter_store()
    content = store.read(dead_letter_id) if store else None
    if content is None:
        raise LetterGone
    return content


def wake() -> None:
    """Wake the inbox after a move when this process knows of anybody who reacts; else the next tick does."""
    if registry.reacted_types():
        wakeups.wake(INBOX)


def subscribe() -> None:
    """Write the subscriptions of the registered reactions that are missing; none is removed."""
    reactions.subscribe(registry.reacted_types())


def subscribe_after_migrate(*, apps: Apps = installed, **_: Any) -> None:
    """Subscribe when the table is there: a migration may have taken it down."""
    if "deadlettersubscription" in apps.all_models["queues"]:
        subscribe()
