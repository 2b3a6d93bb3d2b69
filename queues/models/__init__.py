"""The tables of the queues."""

from queues.models.controls import CircuitState, Destination, PauseKind, SourcePause
from queues.models.events import DeadLetterSubscription, PerspectiveCursor, PerspectiveSubscription, StoredEvent
from queues.models.flows import FlowDelta, FlowTotal
from queues.models.records import DeliveryLogEntry, SeenMessage, ServiceInstance
from queues.models.streams import Arrival, Stream
from queues.models.work import InboxMessage, MessageRow, OutboxMessage, PerspectiveEvent, Source, WorkRow

__all__ = [
    "Arrival",
    "CircuitState",
    "DeadLetterSubscription",
    "DeliveryLogEntry",
    "Destination",
    "FlowDelta",
    "FlowTotal",
    "InboxMessage",
    "MessageRow",
    "OutboxMessage",
    "PauseKind",
    "PerspectiveCursor",
    "PerspectiveEvent",
    "PerspectiveSubscription",
    "SeenMessage",
    "ServiceInstance",
    "Source",
    "SourcePause",
    "StoredEvent",
    "Stream",
    "WorkRow",
]
