"""Ids that senders chose, remembered as long as their message is about, and for a while beyond."""

from queues.conf import conf, dead_letter_store
from queues.store import seen
from queues.store.seen import Seen
from queues.words.sources import BROKER, INBOX

MAX_PAGES = 1_000
"""Pages of ids looked at in one go."""


def forget_old() -> int:
    """Forget ids seen too long ago whose message neither waits nor is dead; return how many. Commits page by page."""
    days = conf().deduplication_days
    if days is None:
        return 0
    forgotten, after = 0, None
    for _ in range(MAX_PAGES):
        page = seen.older(days, after=after)
        if not page:
            break
        forgotten += _forget(page)
        after = page[-1]
    return forgotten


def _forget(page: list[Seen]) -> int:
    ids = [one.message_id for one in page]
    store = dead_letter_store()
    dead = store.is_dead(INBOX, ids) | store.is_dead(BROKER, ids) if store else set()
    return seen.forget([message_id for message_id in ids if message_id not in dead])
