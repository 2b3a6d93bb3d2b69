"""What dead drainers of this host left behind: one run charged, the rest given back at once."""

from pathlib import Path

import structlog
from django.db import transaction

from queues.drainer import recording
from queues.drainer.runners import turn_of
from queues.drainer.runs import log_without_run, lost
from queues.runfile import Noted, orphan
from queues.store import claims, presence
from queues.store.claims import Claimed, Held
from queues.words.errors import ClaimLost
from queues.words.outcomes import OutcomeKind

log = structlog.get_logger(__name__)


def sweep(folder: Path) -> int:
    """Settle the claims of drainers of this host that died without a word; return how many there were."""
    settled = 0
    for path in sorted(folder.glob("*.run")):
        with orphan(path) as noted:
            if noted is not None:
                _settle(noted)
                settled += 1
    return settled


def _settle(noted: Noted) -> None:
    rest = [message_id for message_id in noted.messages if message_id != noted.running]
    if noted.running is not None:
        for row in claims.read(noted.queue.source, [noted.running]):
            _charge(noted, row)
        released = claims.held_under(noted.queue, noted.token, rest)
        log_without_run(noted.queue.source, released, OutcomeKind.RELEASED)
    Held(queue=noted.queue, token=noted.token, messages=noted.messages, streams=noted.streams).release()
    presence.bury(noted.instance_id)
    log.warning("drainer_lost", instance_id=str(noted.instance_id), running=str(noted.running), others=len(rest))


def _charge(noted: Noted, row: Claimed) -> None:
    """Charge the run that went with its process; one whose start was recorded is charged already."""
    turn = turn_of(noted.queue, row)
    try:
        with transaction.atomic():
            recording.write([lost(turn if row.was_started else turn.one_run_later())], noted.token)
    except ClaimLost:
        log.info("lost_run_settled_elsewhere", message_id=str(row.message_id))
