"""Handlers and the registry in which each message type has one."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum
from typing import Any, TypeVar
from uuid import UUID

from queues.words.errors import HandlerConflict, InvalidSetting
from queues.words.messages import MAX_TYPE, Message
from queues.words.outcomes import Budget
from queues.words.reactions import MAX_REACTED_TYPE, DeadLetter, reaction_type


class Unset(Enum):
    """Marks a cap that is not given, since None means no limit."""

    UNSET = "unset"


MAX_PERSPECTIVE = 100

UNSET = Unset.UNSET
Cap = int | None | Unset


class AfterDeath(StrEnum):
    """What the messages do that wait in a stream behind one that was dead-lettered."""

    CONTINUE = "continue"
    HOLD = "hold"


F = TypeVar("F", bound=Callable[[Message], object])
R = TypeVar("R", bound=Callable[[DeadLetter], object])


@dataclass(frozen=True, kw_only=True)
class Handler:
    """What runs for a message type, and within which bounds. `reacts_to`: it gets dead letters of this type instead."""

    type: str
    function: Callable[[Any], object]
    max_attempts: Cap = UNSET
    max_delays: Cap = UNSET
    time_limit: timedelta | None = None
    atomic: bool = True
    after_death: AfterDeath = AfterDeath.CONTINUE
    reacts_to: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or not 1 <= len(self.type) <= MAX_TYPE:
            raise InvalidSetting("type", self.type, f"text of 1 to {MAX_TYPE} characters")
        self.budget(Budget(max_attempts=None, max_delays=None))
        if self.time_limit is not None and self.time_limit <= timedelta(0):
            raise InvalidSetting("time_limit", self.time_limit, "more than 0 seconds")

    @property
    def name(self) -> str:
        named = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return f"{named.__module__}.{named.__qualname__}"

    @property
    def place(self) -> tuple[str, int | None]:
        """Where the function stands, which is the same for one that is registered again."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return self.name, getattr(code, "co_firstlineno", None)

    def budget(self, default: Budget) -> Budget:
        """Return the handler's caps over the source's."""
        return Budget(
            max_attempts=default.max_attempts if isinstance(self.max_attempts, Unset) else self.max_attempts,
            max_delays=default.max_delays if isinstance(self.max_delays, Unset) else self.max_delays,
        )


@dataclass(frozen=True, kw_only=True)
class Projection:
    """What applies events to a perspective: the events' types, and a handler whose type is the perspective's name.

    An event that was passed over is applied out of order when the projection is `commutative`; else `rewind` empties
    the projection of a stream, and its events are applied anew.
    """

    handler: Handler
    event_types: tuple[str, ...]
    commutative: bool = False
    rewind: Callable[[UUID], object] | None = None

    def __post_init__(self) -> None:
        name = self.perspective
        if len(name) > MAX_PERSPECTIVE or "\x00" in name:
            raise InvalidSetting("perspective", name, f"text of 1 to {MAX_PERSPECTIVE} characters")
        if not self.event_types:
            raise InvalidSetting("event types", self.event_types, "at least one type")
        for event_type in self.event_types:
            if not isinstance(event_type, str) or not 1 <= len(event_type) <= MAX_TYPE:
                raise InvalidSetting("event type", event_type, f"text of 1 to {MAX_TYPE} characters")

    @property
    def perspective(self) -> str:
        return self.handler.type


class Registry:
    """One handler for each type and one projection for each perspective; a second one is an error at start."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._projections: dict[str, Projection] = {}

    def add(self, handler: Handler) -> None:
        """Register a handler; raises HandlerConflict when another function has the type."""
        present = self._handlers.get(handler.type)
        if present is not None and present.place != handler.place:
            raise HandlerConflict(handler.type, present.name, handler.name)
        self._handlers[handler.type] = handler

    def get(self, message_type: str) -> Handler | None:
        return self._handlers.get(message_type)

    def types(self) -> tuple[str, ...]:
        return tuple(sorted(self._handlers))

    def reacted_types(self) -> tuple[str, ...]:
        """Return the types whose deaths somebody reacts to."""
        return tuple(sorted(known.reacts_to for known in self._handlers.values() if known.reacts_to is not None))

    def add_projection(self, projection: Projection) -> None:
        """Register a projection; raises HandlerConflict when another function has the perspective."""
        name, handler = projection.perspective, projection.handler
        present = self._projections.get(name)
        if present is not None and present.handler.place != handler.place:
            raise HandlerConflict(name, present.handler.name, handler.name, verb="project")
        self._projections[name] = projection

    def projection(self, perspective: str) -> Projection | None:
        return self._projections.get(perspective)

    def projections(self) -> tuple[Projection, ...]:
        return tuple(self._projections[name] for name in sorted(self._projections))

    @contextmanager
    def scratch(self) -> Iterator["Registry"]:
        """Let a block register what it likes, and restore the registry after it."""
        kept = dict(self._handlers), dict(self._projections)
        try:
            yield self
        finally:
            self._handlers, self._projections = kept


registry = Registry()


def handles(
    message_type: str,
    *,
    max_attempts: Cap = UNSET,
    max_delays: Cap = UNSET,
    time_limit: float | None = None,
    atomic: bool = True,
    after_death: str = AfterDeath.CONTINUE,
) -> Callable[[F], F]:
    """Register the decorated function for a message type and return it unchanged.

    max_attempts: failing runs before the message is dead-lettered, None = no limit; 0 is refused. time_limit:
    seconds, past which the process ends itself. atomic=False: the handler runs outside any transaction.
    after_death: "continue", or "hold": a stream waits behind its dead message until that succeeds, is given up or
    the stream is let go.
    """

    def register(function: F) -> F:
        handler = Handler(
            type=message_type,
            function=function,
            max_attempts=max_attempts,
            max_delays=max_delays,
            time_limit=_limit(time_limit),
            atomic=atomic,
            after_death=_policy(after_death),
        )
        registry.add(handler)
        return function

    return register


def _limit(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _policy(name: str) -> AfterDeath:
    try:
        return AfterDeath(name)
    except ValueError:
        raise InvalidSetting("after_death", name, "continue or hold") from None


def on_dead_letter(
    message_type: str,
    *,
    max_attempts: Cap = UNSET,
    max_delays: Cap = UNSET,
    time_limit: float | None = None,
    atomic: bool = True,
) -> Callable[[R], R]:
    """Register the decorated function as the one that reacts to deaths of messages of a type; it is returned unchanged.

    It gets a `DeadLetter` for each death, whoever moved the message. The reaction is an ordinary message of the
    inbox, of the type "dead_letter:" and the dead one's, stored in the transaction of the move; it has no stream. The
    other arguments are those of `handles`. A reaction that dies is a dead letter, to which nothing reacts unless
    somebody registers for its type.
    """
    if not isinstance(message_type, str) or not 1 <= len(message_type) <= MAX_REACTED_TYPE:
        raise InvalidSetting("type", message_type, f"text of 1 to {MAX_REACTED_TYPE} characters")

    def register(function: R) -> R:
        handler = Handler(
            type=reaction_type(message_type),
            function=function,
            max_attempts=max_attempts,
            max_delays=max_delays,
            time_limit=_limit(time_limit),
            atomic=atomic,
            reacts_to=message_type,
        )
        registry.add(handler)
        return function

    return register


def projects(
    perspective: str,
    *event_types: str,
    max_attempts: Cap = UNSET,
    max_delays: Cap = UNSET,
    time_limit: float | None = None,
    after_death: str = AfterDeath.HOLD,
    commutative: bool = False,
    rewind: Callable[[UUID], object] | None = None,
) -> Callable[[F], F]:
    """Register the decorated function as the one that applies events of these types to a perspective.

    It gets each event as a message of the event's type, in the order of the stream's versions; what it writes
    commits together with the perspective's cursor. The other arguments are those of `handles`, but a stream is held
    behind its dead event unless after_death says "continue". Then that event is passed over, and when it is recovered
    a `commutative` projection applies it out of order; one with `rewind`, a function of the stream's id that empties
    the projection of the stream, has all events up to the cursor applied anew, in one transaction; others refuse it.
    """

    def register(function: F) -> F:
        handler = Handler(
            type=perspective,
            function=function,
            max_attempts=max_attempts,
            max_delays=max_delays,
            time_limit=_limit(time_limit),
            after_death=_policy(after_death),
        )
        projection = Projection(handler=handler, event_types=event_types, commutative=commutative, rewind=rewind)
        registry.add_projection(projection)
        return function

    return register
