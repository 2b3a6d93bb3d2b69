"""Payloads between Python, exact bytes and PostgreSQL's jsonb.

jsonb cannot hold every JSON text exactly: no NUL, no lone surrogate, no duplicate key, no number beyond
numeric's range. Then the exact bytes are kept beside a readable rendering, and handlers get the bytes.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.text import cut, storable

MARK = "$deadletters"
"""Key that marks a rendering in the jsonb column."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_MAX_DIGITS = 100_000
_MAX_EXPONENT = 1_000
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
        text = json.dumps(payload, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidMessage(f"the payload is not JSON: {exc}") from exc
    return encode_bytes(text.encode("ascii"), limits=limits)


def _refuse_odd_keys(payload: Any, limits: PayloadLimits) -> None:
    level: list[Any] = [payload]
    for _ in range(limits.max_depth + 1):
        maps = [value for value in level if isinstance(value, dict)]
        odd = next((key for mapping in maps for key in mapping if not isinstance(key, str)), None)
        if odd is not None:
            raise InvalidMessage(f"the payload has the key {odd!r}; keys must be text")
        lists = [value for value in level if isinstance(value, list | tuple)]
        level = [inner for value in (*lists, *(mapping.values() for mapping in maps)) for inner in value]
        if not level:
            return
    raise InvalidMessage(f"the payload nests deeper than {limits.max_depth} levels")


def encode_bytes(raw: bytes, *, limits: PayloadLimits) -> Encoded:
    """Encode exact JSON bytes; raises InvalidMessage when they are no JSON, too deep or too big."""
    if len(raw) > limits.max_bytes:
        raise InvalidMessage(f"the payload has {len(raw):,} bytes; the limit is {limits.max_bytes:,}")
    try:
        value, exact = _parse(raw, limits)
    except PayloadUnreadable as exc:
        raise InvalidMessage(f"the payload is not readable: {exc.reason}") from exc
    if len(raw) > limits.offload_bytes:
        return Encoded(json=_stub(raw), raw=raw, size=len(raw))
    if exact:
        return Encoded(json=raw.decode(), raw=None, size=len(raw))
    return Encoded(json=_rendering(value), raw=raw, size=len(raw))


def decode_payload(json_text: str | None, raw: bytes | None, *, limits: PayloadLimits) -> Any:
    """Return the payload, from the exact bytes where they are kept; raises PayloadUnreadable.

    Integers are exact. Depth is checked before anything is parsed.
    """
    return _parse(raw if raw is not None else (json_text or "").encode(), limits)[0]


def _parse(raw: bytes, limits: PayloadLimits) -> tuple[Any, bool]:
    """Return the value, and whether jsonb holds it exactly."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise PayloadUnreadable(f"not UTF-8 at byte {exc.start}") from exc
    if depth_of(text) > limits.max_depth:
        raise PayloadUnreadable(f"it nests deeper than {limits.max_depth} levels")
    parser = _Parser()
    try:
        value = parser.decode(text)
    except PayloadUnreadable:
        raise
    except (ValueError, RecursionError) as exc:
        raise PayloadUnreadable(str(exc)) from exc
    return value, parser.exact and _is_storable(text, value)


def depth_of(text: str) -> int:
    """Return how deep brackets nest in a JSON text, without parsing it."""
    if text.count("[") + text.count("{") <= 1:
        return text.count("[") + text.count("{")
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


class _Parser:
    """Parses strictly, and notes what jsonb could not hold."""

    def __init__(self) -> None:
        self.exact = True

    def decode(self, text: str) -> Any:
        return json.loads(
            text,
            parse_int=self._int,
            parse_float=self._float,
            parse_constant=_refuse_constant,
            object_pairs_hook=self._object,
        )

    def _int(self, digits: str) -> int:
        if len(digits) <= _MAX_EXPONENT:
            return int(digits)
        if len(digits) > _MAX_DIGITS:
            raise PayloadUnreadable(f"a number has {len(digits):,} digits")
        self.exact = False
        return int(Decimal(digits))

    def _float(self, digits: str) -> float:
        exponent = digits.lower().partition("e")[2]
        if len(digits) > _MAX_EXPONENT or (exponent and abs(int(exponent[:8])) > _MAX_EXPONENT):
            self.exact = False
        return float(digits)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            self.exact = False
        return built


def _refuse_constant(name: str) -> Any:
    raise PayloadUnreadable(f"{name} is not JSON")


def _is_storable(text: str, value: Any) -> bool:
    if "\\u" not in text:
        return True
    return all("\x00" not in part and not _has_surrogate(part) for part in _strings(value))


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


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
    if isinstance(value, int) and value.bit_length() > _MAX_EXPONENT * 3:
        return f"a number of {value.bit_length():,} bits"
    return value


def _stub(raw: bytes) -> str:
    preview = storable(cut(raw[: _PREVIEW * 4].decode("utf-8", "replace"), _PREVIEW))
    return json.dumps({MARK: f"only the bytes are kept: {len(raw):,}", "preview": preview})
