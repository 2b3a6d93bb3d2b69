"""Error texts as a page shows them: what was raised last first, own frames open, library frames folded.

Python's tracebacks are read in both orders: as Python writes them, the outcome last, and as the queues record them, the
outcome first. Any other text stays as it is.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

_MARGIN = re.compile(r"^[ ]*(?:[|+][ ]?)+")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line \d+')
_LIBRARY = re.compile(r"(site-packages|dist-packages|[\\/]lib\d*[\\/]python\d|^<|[\\/]queues[\\/]drainer[\\/])")
_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):$")
_MEMBER = re.compile(r"[+-]*-{10,} (?:\d+|\.\.\.) -{10,}$")


class Relation(StrEnum):
    """What an exception has to do with the one that is shown before it."""

    NONE = ""
    CAUSE = "cause"
    CONTEXT = "context"
    BEHIND = "behind"
    MEMBER = "member"


class Kind(StrEnum):
    """What the lines of a part are. `repeated`: the message once more; `link`: what its step's relation says."""

    MESSAGE = "message"
    OWN = "own"
    LIBRARY = "library"
    TEXT = "text"
    HEADER = "header"
    REPEATED = "repeated"
    LINK = "link"


_OUTWARD = {
    "The above exception was the direct cause of the following exception:": Relation.CAUSE,
    "During handling of the above exception, another exception occurred:": Relation.CONTEXT,
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """Lines that belong together; `frames`: how many there are in them."""

    kind: Kind
    text: str
    frames: int = 0


@dataclass(frozen=True, kw_only=True)
class Step:
    """One exception of a chain: its message, and where it was raised."""

    relation: Relation
    parts: Sequence[Part]


def steps_of(text: str, own: Sequence[str] = ()) -> Sequence[Step]:
    """Split an error text into the exceptions of its chain, the one that was raised last first.

    own: how paths of files begin whose frames are shown although they look like a library's.
    """
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines) if _HEADER.match(_bare(line))), len(lines))
    head = _message(lines[:start])
    said = "\n".join(part.text for part in head).strip()
    chain = _newest_first(lines[start:])
    steps = [Step(relation=relation, parts=_parts(each, said, own)) for relation, each in chain]
    if not head:
        return steps
    first = steps[0] if steps else Step(relation=Relation.NONE, parts=())
    return [replace(first, parts=[*head, *first.parts]), *steps[1:]]


def _bare(line: str) -> str:
    """Take off what a traceback of an exception group draws at its left, unless it is all that the line holds."""
    margin = _MARGIN.match(line)
    bare = line[margin.end() :] if margin else line
    return line.strip() if _MEMBER.match(line.strip()) else bare


def _newest_first(lines: Sequence[str]) -> Sequence[tuple[Relation, Sequence[str]]]:
    """Cut the lines where one exception ends and another begins, and turn round what Python writes oldest first."""
    blocks = _cut(lines, lambda line: _OUTWARD.get(line.strip()))
    chain: list[tuple[Relation, Sequence[str]]] = []
    relation = Relation.NONE
    for follows, block in reversed(blocks):
        (_, first), *behind = _cut(block, _inward)
        chain += [(relation, first), *behind]
        relation = follows
    return chain if lines else []


def _inward(line: str) -> Relation | None:
    if line.strip() == "Behind it:":
        return Relation.BEHIND
    return Relation.MEMBER if _MEMBER.match(_bare(line)) else None


def _cut(lines: Sequence[str], relation_at: Callable[[str], Relation | None]) -> list[tuple[Relation, list[str]]]:
    """Cut before each line that says how what follows is related; the line stays with what follows."""
    found: list[tuple[Relation, list[str]]] = [(Relation.NONE, [])]
    for line in lines:
        if (relation := relation_at(line)) is not None:
            found.append((relation, []))
        found[-1][1].append(line)
    return found


def _parts(lines: Sequence[str], said: str, own: Sequence[str]) -> Sequence[Part]:
    blocks = list(_blocks(lines))
    kinds = [_kind(block, own) for block in blocks]
    last_frame = max((at for at, kind in enumerate(kinds) if kind in (Kind.OWN, Kind.LIBRARY)), default=-1)
    if Kind.OWN not in kinds and last_frame >= 0:
        kinds[last_frame] = Kind.OWN  # nothing is known to be ours: where it was raised says most
    split = last_frame + 1 if last_frame >= 0 else _after_links(kinds)
    parts = [*_grouped(kinds[:split], blocks[:split]), *_ending(kinds[split:], blocks[split:], said)]
    return [part for part in parts if part.text or part.kind is not Kind.TEXT or len(parts) == 1]


def _after_links(kinds: Sequence[Kind]) -> int:
    return next((at for at, kind in enumerate(kinds) if kind not in (Kind.LINK, Kind.HEADER)), len(kinds))


def _grouped(kinds: Sequence[Kind], blocks: Sequence[Sequence[str]]) -> Iterator[Part]:
    for kind, group in groupby(zip(kinds, blocks, strict=True), key=lambda pair: pair[0]):
        members = [block for _, block in group]
        frames = len(members) if kind in (Kind.OWN, Kind.LIBRARY) else 0
        yield Part(kind=kind, text="\n".join(line for block in members for line in block), frames=frames)


def _ending(kinds: Sequence[Kind], blocks: Sequence[Sequence[str]], said: str) -> Sequence[Part]:
    """Return what stands behind the frames: the message, unless it is only said once more."""
    lines = [line for block in blocks for line in block]
    if any(kind in (Kind.LINK, Kind.HEADER) for kind in kinds):
        return list(_grouped(kinds, blocks))
    text = "\n".join(lines)
    if said and text.strip() == said:
        return [Part(kind=Kind.REPEATED, text=text)]
    if said and text.startswith(f"{said}\n"):
        notes = text.removeprefix(f"{said}\n")
        return [Part(kind=Kind.REPEATED, text=said), Part(kind=Kind.TEXT, text=notes)]
    return _message(lines)


def _message(lines: Sequence[str]) -> Sequence[Part]:
    """Return a message whose first line says most, and what follows it: more of it, or its notes."""
    if not lines:
        return []
    first, *rest = lines
    message = Part(kind=Kind.MESSAGE, text=first)
    return [message, Part(kind=Kind.TEXT, text="\n".join(rest))] if rest else [message]


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield a frame with its source lines, or a line that belongs to none."""
    block: list[str] = []
    for line in lines:
        bare = _bare(line)
        continues = block and _FRAME.match(_bare(block[0])) and bare.startswith("    ") and not _FRAME.match(bare)
        if block and not continues:
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _kind(block: Sequence[str], own: Sequence[str]) -> Kind:
    line = _bare(block[0])
    if frame := _FRAME.match(line):
        is_own = frame["file"].startswith(tuple(own)) or _LIBRARY.search(frame["file"]) is None
        return Kind.OWN if is_own else Kind.LIBRARY
    if _HEADER.match(line):
        return Kind.HEADER
    is_link = block[0].strip() in _OUTWARD or _inward(block[0]) is not None
    return Kind.LINK if is_link else Kind.TEXT
