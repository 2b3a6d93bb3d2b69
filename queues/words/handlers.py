"""Handlers and the registry in which each message type has one."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TypeVar

from queues.words.errors import HandlerConflict, InvalidSetting
from queues.words.messages import MAX_TYPE, Message
from queues.words.outcomes import Budget


class Unset(Enum):
    """Marks a cap that is not given, since None means no limit."""

    UNSET = "unset"


UNSET = Unset.UNSET
Cap = int | None | Unset
F = TypeVar("F", bound=Callable[[Message], object])


@dataclass(frozen=True, kw_only=True)
class Handler:
    """What runs for a message type, and within which bounds."""

    type: str
    function: Callable[[Message], object]
    max_attempts: Cap = UNSET
    max_delays: Cap = UNSET
    time_limit: timedelta | None = None
    atomic: bool = True

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


class Registry:
    """One handler for each type; a second one is an error at start."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

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

    @contextmanager
    def scratch(self) -> Iterator["Registry"]:
        """Let a block register what it likes, and restore the registry after it."""
        kept = dict(self._handlers)
        try:
            yield self
        finally:
            self._handlers = kept


registry = Registry()


def handles(
    message_type: str,
    *,
    max_attempts: Cap = UNSET,
    max_delays: Cap = UNSET,
    time_limit: float | None = None,
    atomic: bool = True,
) -> Callable[[F], F]:
    """Register the decorated function for a message type and return it unchanged.

    max_attempts: failing runs before the message is dead-lettered, None = no limit; 0 is refused. time_limit:
    seconds, past which the process ends itself. atomic=False: the handler runs outside any transaction.
    """

    def register(function: F) -> F:
        limit = None if time_limit is None else timedelta(seconds=time_limit)
        caps = {"max_attempts": max_attempts, "max_delays": max_delays}
        registry.add(Handler(type=message_type, function=function, time_limit=limit, atomic=atomic, **caps))
        return function

    return register
