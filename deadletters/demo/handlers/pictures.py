"""Pictures and reports: what eats memory, kills its process once in a while, or is slow."""

import os
import signal
import time
from typing import Any

from deadletters.demo.handlers.about import about
from queues import Message, Subject, attributed, handles

SLOW_SECONDS = 1.5


@handles("shop.ResizePicture", max_attempts=2)
def resize_picture(message: Message) -> None:
    """Resize a picture. One is a killer: its process ends, and another one takes its place."""
    picture = message.payload
    with attributed(*about(picture), Subject("picture", f"{picture['order_id']}-{picture['number']}")):
        if picture["number"] == 1 and picture["fate"] == "killer":
            os.kill(os.getpid(), signal.SIGKILL)
        if picture["number"] == 2 and picture["fate"] == "huge picture":
            _decode(picture)


def _decode(picture: dict[str, Any]) -> None:
    raise MemoryError(f"picture of order {picture['order_id']}: 48000 x 32000 pixels")


@handles("shop.WriteReport", max_attempts=2)
def write_report(message: Message) -> None:
    """Write a report, slowly: what was claimed together with it is given back meanwhile."""
    with attributed(*about(message.payload)):
        time.sleep(SLOW_SECONDS)
        if message.meta.life == 1:
            raise OSError(28, "No space left on device", f"/srv/reports/{message.payload['order_id']}.pdf")
