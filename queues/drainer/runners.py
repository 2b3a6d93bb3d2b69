"""What runs the messages of each source."""

from collections.abc import Iterable, Iterator
from datetime import UTC, timedelta
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

from queues import outbox, perspectives, reactions
from queues.conf import conf
from queues.drainer.turns import Runner, Turn, Work
from queues.store.bodies import Body
from queues.store.claims import Claimed
from queues.transports.base import Outgoing
from queues.words.errors import EventMissing, Unhandled
from queues.words.handlers import AfterDeath, Handler, Projection, registry
from queues.words.messages import Message, MessageMeta
from queues.words.outcomes import Budget
from queues.words.payloads import decode_payload, read_metadata
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, Queue


def queues_of(source: str) -> list[Queue]:
    """Return the queues of a source that this process drains: of the perspectives those that it knows."""
    if source == PERSPECTIVES:
        return [Queue(source=source, perspective=known.perspective) for known in registry.projections()]
    return [Queue(source=source)]


def turn_of(queue: Queue, row: Claimed) -> Turn:
    """Return a row's turn, with its runner if this process has one."""
    return next(turns_of(queue, [row]))


def turns_of(queue: Queue, rows: Iterable[Claimed]) -> Iterator[Turn]:
    """Yield each row's turn, with its runner if this process has one."""
    known = cache(partial(_runner_and_budget, queue))  # the same for nearly all messages of a type
    for row in rows:
        runner, budget = known(row.message_type, row.max_attempts, row.max_delays)
        yield Turn(row=row, queue=queue, runner=runner, budget=budget)


def _runner_and_budget(
    queue: Queue, message_type: str, max_attempts: int | None, max_delays: int | None
) -> tuple[Runner | None, Budget]:
    """Return what runs messages of a type, and the budget of those with these caps of their own."""
    runner = _RUNNERS[queue.source](queue, message_type)
    base = runner.budget if runner else conf().budget(queue.source)
    return runner, conf().clamped(queue.source, base, max_attempts, max_delays)


def _handling(queue: Queue, message_type: str) -> Runner | None:
    handler = registry.get(message_type)
    return None if handler is None else _runner(queue, handler, partial(_handle, handler))


def _applying(queue: Queue, _message_type: str) -> Runner | None:
    projection = registry.projection(queue.perspective or "")
    return None if projection is None else _runner(queue, projection.handler, partial(_apply, projection))


def _publishing(queue: Queue, message_type: str) -> Runner:
    limit = timedelta(seconds=conf().time_limit_seconds)
    holds = any(fnmatchcase(message_type, pattern) for pattern in conf().hold_outbox_types)
    after_death = AfterDeath.HOLD if holds else AfterDeath.CONTINUE
    budget = conf().budget(queue.source)
    return Runner(budget=budget, time_limit=limit, atomic=True, after_death=after_death, prepare=_publish)


_RUNNERS = {INBOX: _handling, OUTBOX: _publishing, PERSPECTIVES: _applying}


def _runner(queue: Queue, handler: Handler, prepare: Any) -> Runner:
    limit = handler.time_limit or timedelta(seconds=conf().time_limit_seconds)
    budget = handler.budget(conf().budget(queue.source))
    return Runner(
        budget=budget, time_limit=limit, atomic=handler.atomic, after_death=handler.after_death, prepare=prepare
    )


def _handle(handler: Handler, turn: Turn, body: Body) -> Work:
    message = _message(turn, body)
    return partial(handler.function, message if handler.reacts_to is None else reactions.dead_letter_of(message))


def _apply(projection: Projection, turn: Turn, body: Body) -> Work:
    if body.message_type is None:
        raise EventMissing(body.event_id)
    if body.message_type not in projection.event_types:
        raise Unhandled
    return partial(perspectives.apply, projection, _message(turn, body), body.cursor)


def _publish(turn: Turn, body: Body) -> Work:
    """Publish the exact bytes, once they are known to be readable: no receiver could do anything with others."""
    decode_payload(body.event_data, body.envelope_raw, limits=conf().payload_limits())
    return partial(
        outbox.deliver,
        Outgoing(
            message_id=turn.row.message_id,
            message_type=turn.row.message_type,
            destination=body.destination,
            event_data=body.event_data,
            envelope_raw=body.envelope_raw,
            envelope_bytes=turn.row.body_bytes,
            metadata=read_metadata(body.metadata, conf().max_payload_depth),
            stream_id=turn.row.stream_id,
            scope=body.scope,
            is_event=body.is_event,
            flags=body.flags,
            sent_at=body.sent_at.replace(tzinfo=UTC),
            waited=body.waited,
        ),
    )


def _message(turn: Turn, body: Body) -> Message:
    """Build what a handler or projection sees; raises PayloadUnreadable."""
    metadata = read_metadata(body.metadata, conf().max_payload_depth)
    row = turn.row
    meta = MessageMeta(
        attempts=row.attempts + 1,
        delays=row.delays,
        life=row.life,
        source=turn.source,
        position=row.position,
        stream=metadata.get("stream"),
        stream_id=row.stream_id,
        sent_at=body.sent_at.replace(tzinfo=UTC),
        max_attempts=turn.budget.max_attempts,
        dead_letter_id=row.dead_letter_id,
        version=body.version,
    )
    return Message(
        id=body.event_id or row.message_id,
        type=body.message_type or row.message_type,
        payload=decode_payload(body.event_data, body.envelope_raw, limits=conf().payload_limits()),
        headers=metadata.get("headers") or {},
        meta=meta,
    )
