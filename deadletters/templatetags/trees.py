"""JSON as a tree of folding elements: masked, with every digit of a number, bounded."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from queues.words.payloads import depth_of
from queues.words.redaction import MASK, is_secret, mask_text
from queues.words.text import cut, text_of

MAX_CHARACTERS = 256 * 1024
MAX_DEPTH = 60
MAX_CHILDREN = 500
MAX_TEXT = 4_000
OPEN_DEPTH = 3
"""Levels that are open at first."""


class Digits(str):
    """A number as it is written."""

    __slots__ = ()


def render(text: str, key: str | None) -> SafeString:
    """Render a JSON text, or the value of one of its keys; what is too deep or too long is shown as cut text."""
    if len(text) > MAX_CHARACTERS or depth_of(text) > MAX_DEPTH:
        note = "Too large to show as a tree; this is its beginning."
        return format_html('<p class="quiet">{}</p><pre>{}</pre>', note, mask_text(cut(text, MAX_CHARACTERS // 16)))
    value = _parse(text)
    if key is not None and isinstance(value, dict):
        value = value.get(key)
    return format_html('<div class="tree">{}</div>', _node(value, 0))


def headers(metadata: str) -> Sequence[tuple[str, str]]:
    """Return the headers in a message's metadata, secrets masked."""
    if len(metadata) > MAX_CHARACTERS or depth_of(metadata) > MAX_DEPTH:
        return ()
    value = _parse(metadata)
    found = value.get("headers") if isinstance(value, dict) else None
    pairs = found.items() if isinstance(found, dict) else ()
    return [(name, MASK if is_secret(name) else mask_text(text_of(given))) for name, given in pairs][:MAX_CHILDREN]


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_int=Digits, parse_float=Digits, parse_constant=Digits)
    except ValueError:
        return text


def _node(value: Any, depth: int) -> SafeString:
    if isinstance(value, dict):
        return _branch(value.items(), "{", "}", len(value), depth)
    if isinstance(value, list):
        return _branch(((None, item) for item in value), "[", "]", len(value), depth)
    return _leaf(value)


def _branch(
    children: Iterable[tuple[str | None, Any]], opening: str, closing: str, size: int, depth: int
) -> SafeString:
    if size == 0:
        return format_html('<span class="empty">{}{}</span>', opening, closing)
    rows = []
    for name, child in children:
        if len(rows) >= MAX_CHILDREN:
            rows.append(("", format_html('<span class="quiet">… {} more</span>', f"{size - len(rows):,}")))
            break
        rows.append((_key(name), _leaf(None, masked=True) if name and is_secret(name) else _node(child, depth + 1)))
    body = format_html_join("", "<li>{}{}</li>", rows)
    opened = SafeString(" open") if depth < OPEN_DEPTH else ""
    return format_html(
        "<details{}><summary>{} <span>{}</span> {}</summary><ul>{}</ul></details>",
        opened,
        opening,
        f"{size:,}",
        closing,
        body,
    )


def _key(name: str | None) -> SafeString | str:
    return "" if name is None else format_html('<span class="key">{}</span>: ', cut(name, 200))


def _leaf(value: Any, *, masked: bool = False) -> SafeString:
    if masked:
        return format_html('<span class="mask" title="masked">{}</span>', MASK)
    if isinstance(value, Digits):
        return format_html('<span class="number">{}</span>', cut(value, MAX_TEXT))
    if isinstance(value, str):
        return format_html(
            '<span class="string">{}</span>', json.dumps(mask_text(cut(value, MAX_TEXT)), ensure_ascii=False)
        )
    return format_html('<span class="word">{}</span>', json.dumps(value))
