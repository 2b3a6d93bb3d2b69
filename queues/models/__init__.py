"""The tables of the queues."""

from queues.models.records import DeliveryLogEntry, SeenMessage, ServiceInstance
from queues.models.streams import Arrival, Stream
from queues.models.work import InboxMessage, Source, WorkRow

__all__ = [
    "Arrival",
    "DeliveryLogEntry",
    "InboxMessage",
    "SeenMessage",
    "ServiceInstance",
    "Source",
    "Stream",
    "WorkRow",
]
