"""The traceback of a chain of exceptions as text, the newest part first, each part bounded."""

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType

from queues.words.chain import Carrier, walk
from queues.words.codes import error_code
from queues.words.foreign import class_name, exact_text, is_a, qualified, read
from queues.words.text import bounded, text_of

HEADER = "Traceback (most recent call last):"
MAX_NOTES = 20
"""Notes of one exception (PEP 678) that are written after its text."""
MAX_CARRIED = 100
"""How far an exception that only carries another is followed, which may carry a third, or itself."""

_OWN = re.compile(r"^(?:builtins|__main__|queues\.words\.\w+)\.")


@dataclass(frozen=True, kw_only=True)
class TraceBounds:
    """How much of a chain is written: exceptions, frames of each, characters of each one's text."""

    causes: int
    frames: int
    text: int


def name_and_text(exc: BaseException) -> str:
    """Return "Type: text" as a traceback writes it, with the module of a type that is neither built in nor ours.

    "Type [CODE]: text" when the exception carries a code; without a text the colon is missing too. One that
    carries another, as `Terminal` does, says what that one says.
    """
    exc = _spokesman(exc)
    code, text = error_code(exc), text_of(exc)
    head = _OWN.sub("", qualified(type(exc))) + (f" [{code}]" if code else "")
    return f"{head}: {text}" if text else head


def _spokesman(exc: BaseException) -> BaseException:
    for _ in range(MAX_CARRIED):
        if not is_a(exc, Carrier) or exc.carried is None:
            break
        exc = exc.carried
    return exc


def trace_of(exc: BaseException, bounds: TraceBounds) -> str:
    """Return where the exception and those behind it were raised, and their notes; "" where there is none of that."""
    nodes = list(walk(exc))
    if len(nodes) == 1 and not _frames(exc) and not _notes(exc):
        return ""
    parts = [_part(node, bounds) for node in nodes[: bounds.causes]]
    if len(nodes) > bounds.causes:
        parts.append(f"… (cut, {len(nodes):,} exceptions in all)")
    return "\n\nBehind it:\n".join(parts)


def _part(node: BaseException, bounds: TraceBounds) -> str:
    says = bounded("\n".join([name_and_text(node), *_notes(node)]), bounds.text)
    stack = _stack(_frames(node), bounds.frames)
    return f"{HEADER}\n{stack}{says}" if stack else says


def _notes(exc: BaseException) -> list[str]:
    """Return what `add_note` put on an exception, the first MAX_NOTES; what else stands there is left out."""
    notes = read(_spokesman(exc), "__notes__")
    if type(notes) is not list:
        return []
    texts = [text for note in notes[:MAX_NOTES] if (text := exact_text(note)) is not None]
    return texts if len(notes) <= MAX_NOTES else [*texts, f"… (cut, {len(notes):,} notes)"]


def _frames(node: BaseException) -> list[tuple[FrameType, int]]:
    trace = read(node, "__traceback__")
    return list(traceback.walk_tb(trace)) if is_a(trace, TracebackType) else []


def _stack(frames: Sequence[tuple[FrameType, int]], limit: int) -> str:
    """Format the frames; of too many the first third and the last two, since the raise is at the end."""
    if len(frames) <= limit:
        return _format(frames)
    head = limit // 3
    tail = limit - head
    return f"{_format(frames[:head])}  … (cut, {len(frames):,} frames)\n{_format(frames[-tail:])}"


def _format(frames: Sequence[tuple[FrameType, int]]) -> str:
    try:
        return "".join(traceback.StackSummary.extract(iter(frames)).format())
    except Exception as exc:  # source lines come from the loader of each frame's module
        return f"  {len(frames):,} frames that cannot be shown: {class_name(exc)}\n"
