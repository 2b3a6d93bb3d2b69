"""What the tests of perspectives share: projections that note what they apply, and what a perspective has reached."""

import json

from queues.models import InboxMessage, PerspectiveCursor
from queues.words.messages import stream_uuid

PERSPECTIVES = "wh_perspective_events"
UNREPRESENTABLE = {"text": "\x00 \ud800", "number": 10**400}


def versions(state):
    return [message.meta.version for message in state["applied"]]


def effects():
    return [json.loads(message.event_data)["version"] for message in InboxMessage.objects.order_by("position")]


def cursor_of(stream, perspective="totals"):
    return PerspectiveCursor.objects.get(stream_id=stream_uuid(stream), perspective_name=perspective)
