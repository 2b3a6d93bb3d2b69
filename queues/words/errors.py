"""Errors of the queues: a class for each thing that a caller does differently."""

from datetime import timedelta


class QueuesError(Exception):
    """Something went wrong in the queues."""

    def __str__(self) -> str:
        return super().__str__() or (type(self).__doc__ or "").strip()


class InvalidMessage(QueuesError):
    """The message cannot be sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PayloadUnreadable(QueuesError):
    """The payload cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HandlerConflict(QueuesError):
    """Two handlers claim one message type, or two projections one perspective."""

    def __init__(self, name: str, first: str, second: str, *, verb: str = "handle") -> None:
        super().__init__(f"{first} and {second} both {verb} {name}; only one can")
        self.name, self.first, self.second = name, first, second


class Unhandled(QueuesError):
    """No code of this process runs the message."""


class LetterGone(QueuesError):
    """The dead letter is not there any more: it was purged."""


class EventMissing(QueuesError):
    """The event is not in the event store."""

    def __init__(self, event_id: object) -> None:
        super().__init__(f"The event {event_id} is not in the event store.")


class NoRoute(QueuesError):
    """No transport publishes to the destination."""

    def __init__(self, destination: str | None) -> None:
        if destination is None:
            super().__init__("the message has no destination")
        else:
            super().__init__(
                f'no transport publishes to the destination "{destination}": the setting ROUTES has no match'
            )
        self.destination = destination


class DestinationMissing(QueuesError):
    """There is no such queue at the broker."""

    def __init__(self, queue: str) -> None:
        super().__init__(f'there is no queue "{queue}" at the broker: whoever receives from it declares it')
        self.queue = queue


class Unpublishable(QueuesError):
    """The broker cannot carry the message."""


class NotReady(QueuesError):
    """The destination cannot take messages now, through no fault of the message.

    `wait`: how long the other side asked for; nothing = it did not say.
    """

    def __init__(self, reason: str, *, wait: timedelta = timedelta(0)) -> None:
        super().__init__(reason)
        self.wait = wait


class NeverReady(QueuesError):
    """The destination could not take the message for as long as a message waits for that."""


class VersionConflict(QueuesError):
    """The stream is at another version than the one expected; nothing was appended."""

    def __init__(self, stream: object, expected: int, present: int) -> None:
        super().__init__(f"the stream {stream} was expected at version {expected} and is at version {present}")
        self.stream, self.expected, self.present = stream, expected, present


class InvalidSetting(QueuesError):
    """A setting has a value that cannot be used."""

    def __init__(self, name: str, value: object, want: str) -> None:
        super().__init__(f"{name} is {value!r}; it must be {want}")
        self.name, self.value, self.want = name, value, want


class ClaimLost(QueuesError):
    """The claim is no longer held: somebody else runs or moved the message."""
