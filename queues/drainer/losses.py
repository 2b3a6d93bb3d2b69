"""What dead drainers of this host left behind: one run charged, the rest given back at once."""

from pathlib import Path

import structlog
from django.db import transaction

from queues.drainer import recording
from queues.drainer.runners import turn_of
from queues.drainer.runs import log_without_run, lost
from queues.drainer.turns import Turn
from queues.runfile import Noted, orphan
from queues.store import claims, presence
from queues.store.bodies import bodies
from queues.store.claims import Claimed, Held
from queues.words.errors import ClaimLost
from queues.words.outcomes import OutcomeKind

log = structlog.get_logger(__name__)


def sweep(folder: Path) -> int:
    """Settle the claims of drainers of this host that died without a word; return how many there were."""
    return sum(_is_settled(path) for path in sorted(folder.glob("*.run")))


def _is_settled(path: Path) -> bool:
    """Settle what one drainer noted; what cannot be settled keeps no drain from its work and waits for its lease."""
    try:
        with orphan(path) as noted:
            if noted is not None:
                _settle(noted)
    except Exception as exc:
        log.exception("lost_run_not_settled", file=path.name, error=str(exc)[:200])
        return False
    return noted is not None


def _settle(noted: Noted) -> None:
    """Charge what was running and give the rest back in one transaction: the charge must not outlive its claim."""
    rest = [message_id for message_id in noted.messages if message_id != noted.running]
    source, held = noted.queue.source, _held(noted)
    ran = [] if noted.running is None else claims.read(source, [noted.running])
    with transaction.atomic():
        recording.lock_letters(ran)
        held.is_held()  # locks all of it, before a part of it is locked
        for row in ran:
            _charge(noted, row)
        if noted.running is not None:
            log_without_run(source, claims.held_under(noted.queue, noted.token, rest), OutcomeKind.RELEASED)
        held.release()
        presence.bury(noted.instance_id)
    log.warning("drainer_lost", instance_id=str(noted.instance_id), running=str(noted.running), others=len(rest))


def _held(noted: Noted) -> Held:
    if not noted.messages:
        return claims.found_under(noted.queue, noted.token)
    return Held(queue=noted.queue, token=noted.token, messages=noted.messages, streams=noted.streams)


def _charge(noted: Noted, row: Claimed) -> None:
    """Charge the run that went with its process; one whose start was recorded is charged already."""
    turn = turn_of(noted.queue, row)
    if not row.was_started:
        turn = turn.one_run_later()
    try:
        with transaction.atomic():
            recording.write([lost(turn, last_reported=_last_reported(turn))], noted.token)
    except ClaimLost:
        log.info("lost_run_settled_elsewhere", message_id=str(row.message_id))


def _last_reported(turn: Turn) -> str | None:
    """Return what an earlier run of a message reported that is now dead."""
    if not turn.is_spent:
        return None
    body = bodies(turn.source, [turn.row.message_id]).get(turn.row.message_id)
    return body.error if body else None
