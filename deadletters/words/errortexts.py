"""Error texts as a page shows them: own frames open, library frames folded."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line \d+')
_LIBRARY = re.compile(r"(site-packages|dist-packages|/lib/python\d|<frozen |/queues/drainer/)")
_HEADER = "Traceback (most recent call last):"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Lines that belong together. `is_folded`: frames of libraries, shown on request."""

    text: str
    is_folded: bool
    frames: int
    is_message: bool = False


def parts_of(text: str) -> Sequence[Part]:
    """Split an error text into its message and its frames; one without a Python traceback is all message."""
    message, header, trace = ("", "\n", text) if text.startswith(_HEADER) else text.partition("\n" + _HEADER)
    parts = [Part(text=message, is_folded=False, frames=0, is_message=True)] if message or not header else []
    blocks = list(_blocks((header + trace).removeprefix("\n").split("\n"))) if header else []
    for is_library, group in groupby(blocks, key=lambda block: block[0]):
        members = [block for _, block in group]
        lines = [line for block in members for line in block]
        parts.append(Part(text="\n".join(lines), is_folded=is_library, frames=len(members)))
    return parts


def _blocks(lines: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield a frame with its source lines, or a line that belongs to none, and whether a library is in it."""
    block: list[str] = []
    for line in lines:
        continues = block and _FRAME.match(block[0]) and line.startswith("    ") and not _FRAME.match(line)
        if block and not continues:
            yield _is_library(block), block
            block = []
        block.append(line)
    if block:
        yield _is_library(block), block


def _is_library(block: Sequence[str]) -> bool:
    frame = _FRAME.match(block[0])
    return frame is not None and _LIBRARY.search(frame["file"]) is not None
