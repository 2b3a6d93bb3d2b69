"""A fault, and error texts as the engine records them."""

from collections.abc import Sequence
from dataclasses import dataclass

from queues.words.outcomes import Cause, FailureReason
from queues.words.traces import HEADER

NUMBER = "{n}"
"""Stands in an error text for a number that differs from letter to letter."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What all letters of a group died of. `error`: None = no reason was recorded, "" = an empty one."""

    source: str
    message_type: str
    cause: Cause
    reason: FailureReason
    attempts: int
    error: str | None
    destination: str | None = None
    perspective: str | None = None
    is_foreign: bool = False
    """Moved by a service in another language: without a fingerprint, for which the database makes one."""


def traceback_of(says: str, frames: Sequence[tuple[str, str]], *, behind: str = "") -> str:
    """Return "Type: text" and the stack below it; `behind`: the exception that was its cause."""
    lines = [says, HEADER]
    for file, function in frames:
        lines.append(f'  File "/srv/shop/{file}", line {20 + len(file) * len(function) % 180}, in {function}')
        lines.append(f"    {function}(message)")
    lines.append(says)
    return "\n".join([*lines, "", "Behind it:", behind] if behind else lines)
