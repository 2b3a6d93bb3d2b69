"""JSON texts as others may see them: secrets masked, every digit kept, nothing parsed that is too deep."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from queues.words.payloads import MARK, depth_of
from queues.words.redaction import MASK, is_secret, mask, mask_text
from queues.words.text import cut

MAX_DEPTH = 150
"""Levels of a JSON text that is parsed; payloads that handlers get nest less deep."""

MAX_HEAD = 4_000
"""Characters that are shown of a JSON text that is not parsed."""

_plain = json.JSONEncoder(ensure_ascii=False).encode
_SECRET_BRANCH = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*[\[{]')


@dataclass(frozen=True, slots=True)
class Verbatim:
    """JSON that is written as it is: a number with its digits, or a whole text."""

    text: str


def masked_json(text: str, key: str | None = None, *, max_characters: int) -> Verbatim:
    """Return a JSON text, or the value of one of its keys, with secrets masked.

    Of one that is too long or too deep only the beginning, as {MARK: what was cut, "begins": text}.
    """
    depth = depth_of(text) if len(text) <= max_characters else 0
    if len(text) > max_characters or depth > MAX_DEPTH:
        levels = f", {depth:,} levels" if depth else ""
        said = f"cut: {len(text):,} characters{levels}"
        return Verbatim(written({MARK: said, "begins": masked_head(text, MAX_HEAD)}))
    value = json.loads(text, parse_int=Verbatim, parse_float=Verbatim)
    if key is not None and isinstance(value, dict):
        value = value.get(key, value)
    return Verbatim(written(mask(value)))


def written(value: Any) -> str:
    """Write a value as JSON without spaces."""
    if isinstance(value, Verbatim):
        return value.text
    if isinstance(value, Mapping):
        members = (f"{_plain(name)}:{written(inner)}" for name, inner in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    return _plain(value)


def masked_head(text: str, limit: int) -> str:
    """Mask the beginning of a JSON text without parsing it; it ends before the first branch below a secret key."""
    head = cut(text, limit)
    for branch in _SECRET_BRANCH.finditer(head):
        if is_secret(branch[1]):
            return mask_text(head[: branch.end(1) + 1]) + f": {MASK} …"
    return mask_text(head)
