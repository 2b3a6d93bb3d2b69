"""What a transport is, and what it gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """One outbox message as it is stored: the exact bytes where they are kept, else the JSON text."""

    message_id: UUID
    message_type: str
    destination: str | None
    event_data: str
    envelope_raw: bytes | None
    envelope_bytes: int
    metadata: Mapping[str, Any]
    stream_id: UUID | None
    scope: str | None
    is_event: bool
    flags: int | None
    sent_at: datetime
    waited: timedelta


class Transport(Protocol):
    """Publishes messages; named by the setting ROUTES."""

    def publish(self, message: Outgoing) -> None:
        """Publish one message, or raise: a return means that the other side has it.

        NotReady says that the other side takes none now, whatever the message.
        """
