"""Any Python value as JSON that PostgreSQL takes, bounded."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from queues.words.text import bounded, text_of, unprintable

CUT = "… (cut)"
_MAX_BITS = 3_300
"""About 1,000 digits; Python refuses to write or read numbers of more than 4,300."""
_NODE_COST = 8


@dataclass(kw_only=True)
class Room:
    """How much may still be kept: characters in all, items of each collection, levels."""

    characters: int
    items: int
    depth: int

    def take(self, text: str) -> str:
        kept = bounded(text, max(self.characters, 0))
        self.characters -= len(kept)
        return kept


def plain(value: Any, room: Room) -> Any:
    """Return the value as JSON: NaN as a text that says so, what is no JSON as its text, what is cut says so."""
    return _guarded(value, room, room.depth)


def _guarded(value: Any, room: Room, depth: int) -> Any:
    try:
        return _plain(value, room, depth)
    except Exception as exc:  # a collection of the caller's may raise anything
        return room.take(unprintable(value, exc))


def plain_pairs(pairs: Iterable[tuple[Any, Any]], room: Room) -> dict[str, Any]:
    """Return pairs as a JSON object whose first value of a key stays."""
    kept: dict[str, Any] = {}
    for key, value in pairs:
        if room.characters <= 0:
            return {**kept, "…": "cut"}
        name = room.take(text_of(key))
        if name not in kept:
            kept[name] = plain(value, room)
    return kept


def _plain(value: Any, room: Room, depth: int) -> Any:
    room.characters -= _NODE_COST
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _number(value, room)
    if isinstance(value, float):
        return value if math.isfinite(value) else f"{value} (no JSON number)"
    if isinstance(value, str):
        return room.take(value)
    if depth <= 0 or room.characters <= 0:
        return CUT
    if isinstance(value, Mapping):
        return _mapping(value, room, depth - 1)
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value, room, depth - 1)
    return room.take(text_of(value))


def _number(value: int, room: Room) -> int | str:
    if value.bit_length() > _MAX_BITS:
        return f"{value.bit_length():,}-bit number"
    room.characters -= value.bit_length() // 3
    return value


def _mapping(value: Mapping[Any, Any], room: Room, depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, inner in islice(value.items(), room.items):
        if room.characters <= 0:
            break
        kept[room.take(text_of(key))] = _guarded(inner, room, depth)
    else:
        if len(value) <= room.items:
            return kept
    return {**kept, "…": f"cut, {len(value):,} keys"}


def _items(value: Any, room: Room, depth: int) -> list[Any]:
    kept: list[Any] = []
    for inner in islice(value, room.items):
        if room.characters <= 0:
            break
        kept.append(_guarded(inner, room, depth))
    else:
        if len(value) <= room.items:
            return kept
    return [*kept, f"… (cut, {len(value):,} items)"]
