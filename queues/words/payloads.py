"""Payloads between Python, exact bytes and PostgreSQL's jsonb.

jsonb cannot hold every JSON text exactly: no NUL, no lone surrogate, no duplicate key, no number beyond
numeric's range; and it writes 1e3 back as 1000. Then the exact bytes are kept, and handlers get the bytes.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.text import bounded, storable, text_of

MARK = "$deadletters"
"""Key that marks a rendering in the jsonb column."""

# Possessive, and content with an open end: linear in the text whatever it holds.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_BETWEEN = re.compile(r"[ \t\r\n]*+[{,:}]?[ \t\r\n]*+")
_MAX_DIGITS = 20_000
"""Longest number that is read; the cost of reading one grows with the square."""
_SHOWN_DIGITS = 1_000
"""Longest number of a rendering; PostgreSQL takes more, Python's default reader and browsers do not."""
_PREVIEW = 2_000


@dataclass(frozen=True, kw_only=True)
class PayloadLimits:
    """Bytes beyond which only the bytes are kept, bytes that are refused, and levels of nesting."""

    offload_bytes: int = 1024 * 1024
    max_bytes: int = 64 * 1024 * 1024
    max_depth: int = 100


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A payload as it is stored: `json` always fits a jsonb column; `raw` only where that is not exact."""

    json: str
    raw: bytes | None
    size: int


def encode_payload(payload: Any, *, limits: PayloadLimits) -> Encoded:
    """Encode a Python value; raises InvalidMessage for what is not JSON (NaN, other types), too deep or too big."""
    _refuse_odd_keys(payload, limits)
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidMessage(f"the payload is not JSON: {exc}") from exc
    return encode_bytes(_utf8(text), limits=limits)


def _utf8(text: str) -> bytes:
    """Encode a JSON text; a lone surrogate in it becomes an escape, which JSON allows."""
    return text.encode("utf-8", "backslashreplace")


def _refuse_odd_keys(payload: Any, limits: PayloadLimits) -> None:
    level: list[Any] = [payload]
    for _ in range(limits.max_depth + 1):
        maps = [value for value in level if isinstance(value, dict)]
        for key in (key for mapping in maps for key in mapping if not isinstance(key, str)):
            raise InvalidMessage(f"the payload has the key {bounded(text_of(key), 100)}; keys must be text")
        lists = [value for value in level if isinstance(value, list | tuple)]
        if sum(map(len, lists)) + sum(map(len, maps)) > limits.max_bytes:
            raise InvalidMessage(f"the payload has more than {limits.max_bytes:,} bytes")
        level = [inner for value in (*lists, *(mapping.values() for mapping in maps)) for inner in value]
        if not level:
            return
    raise InvalidMessage(f"the payload nests deeper than {limits.max_depth} levels")


def encode_bytes(raw: bytes, *, limits: PayloadLimits) -> Encoded:
    """Encode exact JSON bytes; raises InvalidMessage when they are no JSON, too deep or too big."""
    if len(raw) > limits.max_bytes:
        raise InvalidMessage(f"the payload has {len(raw):,} bytes; the limit is {limits.max_bytes:,}")
    parser = _Parser()
    try:
        text = _decoded(raw)
        value = parser.parse(text, limits)
    except PayloadUnreadable as exc:
        raise InvalidMessage(f"the payload is not readable: {exc.reason}") from exc
    if len(raw) > limits.offload_bytes:
        return Encoded(json=stub_of(raw), raw=raw, size=len(raw))
    if parser.loses or not _is_storable(text, value):
        return Encoded(json=_rendering(value), raw=raw, size=len(raw))
    return Encoded(json=text, raw=raw if parser.restyles else None, size=len(raw))


def decode_payload(json_text: str | None, raw: bytes | None, *, limits: PayloadLimits) -> Any:
    """Return the payload, from the exact bytes where they are kept; raises PayloadUnreadable.

    Integers are exact. Depth is checked before anything is parsed.
    """
    return _READER.parse(_decoded(raw) if raw is not None else json_text or "", limits)


def members_of(line: bytes, *, limits: PayloadLimits) -> Mapping[str, tuple[Any, bytes]]:
    """Return the members of a JSON object, each as its value and its exact bytes; each may nest to the limit.

    Raises PayloadUnreadable for what is no object, and for a key that comes twice.
    """
    text = _decoded(line)
    if not isinstance(_Parser().parse(text, limits, around=1), dict):
        raise PayloadUnreadable("it is not a JSON object")
    members: dict[str, tuple[Any, bytes]] = {}
    for key, value, part in _members(text):
        if key in members:
            raise PayloadUnreadable(f'the key "{bounded(key, 100)}" comes twice')
        members[key] = (value, part.encode())
    return members


def _members(text: str) -> Iterable[tuple[str, Any, str]]:
    """Yield key, value and text of each member of an object that is known to be well-formed."""
    parser = _Parser()
    at = _past_mark(text, 0)
    while at < len(text) and text[at] == '"':
        key, at = parser.decoder.raw_decode(text, at)
        start = _past_mark(text, at)
        value, end = parser.decoder.raw_decode(text, start)
        yield key, value, text[start:end]
        at = _past_mark(text, end)


def _past_mark(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise PayloadUnreadable(f"not UTF-8 at byte {exc.start}") from exc


def depth_of(text: str, *, enough: int = sys.maxsize) -> int:
    """Return how deep brackets nest in a JSON text, without parsing it; it stops at the first beyond `enough`."""
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = text[found.start()]
        if mark in "[{":
            depth += 1
            if depth > deepest:
                deepest = depth
                if deepest > enough:
                    break
        elif mark != '"':
            depth -= 1
    return deepest


def is_deeper(text: str, limit: int) -> bool:
    """Say whether brackets nest deeper in a JSON text than the limit, without parsing it."""
    return text.count("[") + text.count("{") > limit and depth_of(text, enough=limit) > limit


class _Reader:
    """Parses strictly."""

    def __init__(self, **hooks: Any) -> None:
        self.decoder = json.JSONDecoder(parse_constant=_refuse_constant, **{"parse_int": self._int, **hooks})

    def parse(self, text: str, limits: PayloadLimits, *, around: int = 0) -> Any:
        """Parse a text; `around`: levels that do not count, being around what is limited."""
        if is_deeper(text, limits.max_depth + around):
            raise PayloadUnreadable(f"it nests deeper than {limits.max_depth} levels")
        if text.startswith("\ufeff"):
            raise PayloadUnreadable("it begins with a byte order mark")
        try:
            return self.decoder.decode(text)
        except (ValueError, RecursionError) as exc:
            raise PayloadUnreadable(str(exc)) from exc

    def _int(self, digits: str) -> int:
        if len(digits) <= _SHOWN_DIGITS:
            return int(digits)
        if len(digits) > _MAX_DIGITS:
            raise PayloadUnreadable(f"a number has {len(digits):,} digits; the limit is {_MAX_DIGITS:,}")
        return int(Decimal(digits))  # int() of a text refuses more than 4,300 digits


class _Parser(_Reader):
    """Notes besides what jsonb would lose (`loses`) or write in another way (`restyles`)."""

    def __init__(self) -> None:
        self.loses = self.restyles = False
        super().__init__(parse_float=self._float, object_pairs_hook=self._object)

    def _int(self, digits: str) -> int:
        self.loses = self.loses or len(digits) > _SHOWN_DIGITS
        return super()._int(digits)

    def _float(self, digits: str) -> float:
        value = float(digits)
        exponent = digits.lower().partition("e")[2]
        if len(digits) > _SHOWN_DIGITS or abs(int(exponent or 0)) > _SHOWN_DIGITS:
            self.loses = True
        elif (exponent and int(exponent) >= 0) or (value == 0 and digits.startswith("-")):
            self.restyles = True  # 1e3 comes back as the integer 1000, -0.0 as 0.0
        return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            self.loses = True
        return built


def _refuse_constant(name: str) -> Any:
    raise PayloadUnreadable(f"{name} is not JSON")


_READER = _Reader()


def _is_storable(text: str, value: Any) -> bool:
    if "\\u" not in text:
        return True
    return all(part == storable(part) for part in _strings(value))


def _strings(value: Any) -> Iterable[str]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            waiting.extend(part)
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _rendering(value: Any) -> str:
    mark = "not the exact bytes: the database cannot hold a part of them as JSON"
    return json.dumps({MARK: mark, "value": _readable(value)}, allow_nan=False)


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(key): _readable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    if isinstance(value, float) and abs(value) == float("inf"):
        return "a number out of range"
    if isinstance(value, int) and value.bit_length() > _SHOWN_DIGITS * 10 // 3:
        return f"a number of about {round(value.bit_length() * 0.30103):,} digits"
    return value


def stub_of(raw: bytes) -> str:
    """Return what stands in the JSON column where only the bytes are kept: how many, and how they begin."""
    preview = bounded(raw[: _PREVIEW * 4].decode("utf-8", "replace"), _PREVIEW)
    return json.dumps({MARK: f"only the bytes are kept: {len(raw):,}", "preview": preview})


def read_metadata(text: str, max_depth: int) -> Mapping[str, Any]:
    """Read what a foreign writer may nest as deep as a payload; {} unless it is an object. Raises PayloadUnreadable."""
    if text == "{}":
        return {}
    if is_deeper(text, max_depth):
        raise PayloadUnreadable(f"the metadata nests deeper than {max_depth} levels")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise PayloadUnreadable("the metadata cannot be read") from exc
    return metadata if isinstance(metadata, dict) else {}
