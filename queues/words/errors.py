"""Errors of the queues: a class for each thing that a caller does differently."""


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
    """Two handlers claim one message type."""

    def __init__(self, message_type: str, first: str, second: str) -> None:
        super().__init__(f"{first} and {second} both handle {message_type}; a type has one handler")
        self.message_type, self.first, self.second = message_type, first, second


class InvalidSetting(QueuesError):
    """A setting has a value that cannot be used."""

    def __init__(self, name: str, value: object, want: str) -> None:
        super().__init__(f"{name} is {value!r}; it must be {want}")
        self.name, self.value, self.want = name, value, want


class ClaimLost(QueuesError):
    """The claim is no longer held: somebody else runs or moved the message."""
