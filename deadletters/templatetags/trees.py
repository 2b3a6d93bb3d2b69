"""JSON as a tree of folding elements: masked, with every digit of a number, bounded."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from deadletters.words.jsontexts import masked_head
from deadletters.words.pointers import MAX_POINTER, pointer_to
from queues.words.payloads import depth_of
from queues.words.redaction import MASK, is_secret, mask_text
from queues.words.text import cut, text_of

MAX_CHARACTERS = 256 * 1024
MAX_DEPTH = 60
MAX_NODES = 3_000
MAX_CHILDREN = 500
MAX_TEXT = 4_000
MAX_CUT_TEXT = 16_000
MAX_MASKED = 100
OPEN_DEPTH = 3
OPEN_SIZE = 10
"""How many levels are open at first, and the largest branch among them; the outermost always is."""

NO_LABEL = SafeString("")


class Digits(str):
    """A number as it is written."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A JSON text as HTML; `masked`: where in it values are masked, as JSON pointers, at most MAX_MASKED of them."""

    html: SafeString
    masked: Sequence[str] = ()


def render(text: str, key: str | None = None) -> SafeString:
    """Render a JSON text, or the value of one of its keys; what is too deep or too long is shown as cut text."""
    return draw(text, key).html


def draw(text: str, key: str | None = None) -> Drawn:
    """Render the same, and say what of it is masked."""
    depth = depth_of(text)
    if len(text) > MAX_CHARACTERS or depth > MAX_DEPTH:
        return Drawn(html=_as_text(text, depth))
    value = _parse(text)
    if key is not None and isinstance(value, dict):
        value = value.get(key, value)
    tree = _Tree()
    return Drawn(html=format_html('<div class="tree">{}</div>', tree.node(value, 0)), masked=tree.masked)


def headers(metadata: str) -> Sequence[tuple[str, str]]:
    """Return the headers in a message's metadata, secrets masked."""
    pairs = list(_headers(metadata).items())[:MAX_CHILDREN]
    return [(name, MASK if is_secret(name) else mask_text(text_of(given))) for name, given in pairs]


def masked_headers(metadata: str) -> Sequence[str]:
    """Return where among the headers values are masked, as JSON pointers."""
    tree = _Tree()
    tree.node(_headers(metadata), 0)
    return tree.masked


def _headers(metadata: str) -> dict[str, Any]:
    if len(metadata) > MAX_CHARACTERS or depth_of(metadata) > MAX_DEPTH:
        return {}
    value = _parse(metadata)
    found = value.get("headers") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _as_text(text: str, depth: int) -> SafeString:
    note = _("Too large to show as a tree (%(size)s characters, %(depth)s levels); this is how it begins.")
    said = note % {"size": f"{len(text):,}", "depth": f"{depth:,}"}
    return format_html('<p class="quiet">{}</p><pre class="raw">{}</pre>', said, masked_head(text, MAX_CUT_TEXT))


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_int=Digits, parse_float=Digits, parse_constant=Digits)
    except ValueError:
        return text


class _Tree:
    """One tree being written; counts what it has written, so that a page stays small."""

    def __init__(self) -> None:
        self.left = MAX_NODES
        self.masked: list[str] = []

    def node(self, value: Any, depth: int, label: SafeString = NO_LABEL, place: str = "") -> SafeString:
        """Write a value behind its label: a key, or a place in a list; `place`: where it is, as a JSON pointer."""
        self.left -= 1
        if isinstance(value, dict) and value:
            return self._branch(label, "{}", len(value), depth, self._members(value, depth + 1, place))
        if isinstance(value, list) and value:
            return self._branch(label, "[]", len(value), depth, self._items(value, depth + 1, place))
        if isinstance(value, str) and not isinstance(value, Digits) and mask_text(value[:MAX_TEXT]) != value[:MAX_TEXT]:
            self._note(place)
        return format_html("{}{}", label, _leaf(value))

    def _members(self, value: dict[str, Any], depth: int, place: str) -> Iterator[SafeString]:
        for name, child in value.items():
            label = format_html('<span class="key">{}</span>: ', cut(name, 200))
            here = pointer_to(place, name)
            if is_secret(name):
                self._note(here)
                yield format_html("{}{}", label, _mask())
            else:
                yield self.node(child, depth, label, here)

    def _items(self, value: list[Any], depth: int, place: str) -> Iterator[SafeString]:
        for at, child in enumerate(value):
            yield self.node(child, depth, format_html('<span class="index">{}</span> ', at), f"{place}/{at}")

    def _note(self, place: str) -> None:
        if len(self.masked) < MAX_MASKED and len(place) <= MAX_POINTER:
            self.masked.append(place)

    def _branch(
        self, label: SafeString, braces: str, size: int, depth: int, children: Iterator[SafeString]
    ) -> SafeString:
        rows: list[tuple[SafeString]] = []
        while len(rows) < min(size, MAX_CHILDREN) and self.left > 0:
            rows.append((next(children),))
        if len(rows) < size:
            rows.append((format_html('<span class="quiet">… {} more</span>', f"{size - len(rows):,}"),))
        return format_html(
            "<details{}><summary>{}{} <span>{}</span> {}</summary><ul>{}</ul></details>",
            SafeString(" open") if depth == 0 or (depth < OPEN_DEPTH and size <= OPEN_SIZE) else "",
            label,
            braces[0],
            f"{size:,}",
            braces[1],
            format_html_join("", "<li>{}</li>", rows),
        )


def _mask() -> SafeString:
    return format_html('<span class="mask" title="{}">{}</span>', _("masked"), MASK)


def _leaf(value: Any) -> SafeString:
    if isinstance(value, Digits):
        return format_html('<span class="number">{}</span>', cut(value, MAX_TEXT))
    if isinstance(value, str):
        shown = json.dumps(mask_text(cut(value, MAX_TEXT)), ensure_ascii=False)
        return format_html('<span class="string">{}</span>', shown)
    return format_html('<span class="word">{}</span>', json.dumps(value))
