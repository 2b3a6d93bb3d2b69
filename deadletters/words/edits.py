"""Payloads as people edit them: laid out, secrets as numbered masks that can be left in place.

Every digit, the order of keys and keys that come twice are kept.
"""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deadletters.words.errors import BadChange
from deadletters.words.jsontexts import Verbatim
from queues.words.payloads import is_deeper
from queues.words.redaction import MASK, is_secret, mask_text

MAX_DEPTH = 150
"""Levels of a payload that is laid out; the queues take fewer."""
MAX_DIFF_LINES = 2_000
"""Lines of a difference that are told."""
MAX_COMPARED_LINES = 5_000
"""Lines of a text that is compared; the cost may grow with their square."""

_INDENT = "  "
_NUMBERED = re.compile(re.escape(MASK) + r"#(\d{1,9})")
_plain = json.JSONEncoder(ensure_ascii=False).encode


class Members(list[tuple[str, Any]]):
    """The members of a JSON object in their order; a key may come twice."""


@dataclass(frozen=True, kw_only=True)
class Secret:
    """What stands behind a numbered mask; `is_whole`: the value of a secret key, else a text with a secret in it."""

    shown: str
    value: Any
    is_whole: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a difference: `kind` is same, added, removed or gap (lines that are left out)."""

    kind: str
    text: str


def parse(text: str, max_depth: int = MAX_DEPTH) -> Any:
    """Read a JSON text; raises BadChange that says where it is none."""
    if is_deeper(text, max_depth):
        raise BadChange("payload", f"nests deeper than {max_depth} levels")
    if text.startswith("\ufeff"):
        raise BadChange("payload", "begins with a byte order mark; leave it out")
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as exc:
        raise BadChange("payload", f"is no JSON at line {exc.lineno:,}, column {exc.colno:,}: {exc.msg}") from exc
    except (ValueError, RecursionError) as exc:
        raise BadChange("payload", f"is no JSON: {exc}") from exc


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


_decoder = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Verbatim, parse_float=Verbatim, parse_constant=_refuse_constant
)


def compact(value: Any) -> str:
    """Write a value as JSON without spaces."""
    return "".join(_pieces(value, None, 0))


def laid_out(value: Any) -> str:
    """Write a value as JSON, one member a line."""
    return "".join(_pieces(value, _INDENT, 0))


def _pieces(value: Any, indent: str | None, depth: int) -> Iterator[str]:
    if isinstance(value, list) and value:
        opening, closing = "{}" if isinstance(value, Members) else "[]"
        yield opening
        for number, child in enumerate(value):
            yield "," if number else ""
            yield "" if indent is None else "\n" + indent * (depth + 1)
            if isinstance(value, Members):
                yield _text(child[0]) + (":" if indent is None else ": ")
                child = child[1]
            yield from _pieces(child, indent, depth + 1)
        yield closing if indent is None else "\n" + indent * depth + closing
    else:
        yield _leaf(value)


def _leaf(value: Any) -> str:
    if isinstance(value, Verbatim):
        return value.text
    if isinstance(value, list):
        return "{}" if isinstance(value, Members) else "[]"
    return _text(value) if isinstance(value, str) else _plain(value)


def _text(text: str) -> str:
    """Write a text; half a character becomes an escape, since no page and no database holds it."""
    return _plain(text).encode("utf-8", "backslashreplace").decode("utf-8")


# --- masks


def masked(value: Any) -> tuple[Any, dict[int, Secret]]:
    """Return a value with each secret as a numbered mask, and what stands behind the numbers."""
    secrets: dict[int, Secret] = {}
    return _masked(value, secrets), secrets


def _masked(value: Any, secrets: dict[int, Secret]) -> Any:
    if isinstance(value, Members):
        return Members(
            (key, _hidden(child, secrets, is_whole=True) if is_secret(key) else _masked(child, secrets))
            for key, child in value
        )
    if isinstance(value, list):
        return [_masked(child, secrets) for child in value]
    if isinstance(value, str) and (MASK in value or mask_text(value) != value):
        return _hidden(value, secrets, is_whole=False)
    return value


def _hidden(value: Any, secrets: dict[int, Secret], *, is_whole: bool) -> str:
    number = len(secrets) + 1
    mask = f"{MASK}#{number}"
    shown = mask if is_whole else _shown(value, mask)
    secrets[number] = Secret(shown=shown, value=value, is_whole=is_whole)
    return shown


def _shown(text: str, mask: str) -> str:
    return mask_text(text).replace(MASK, mask)


def merged(value: Any, secrets: dict[int, Secret]) -> Any:
    """Return what was typed with each numbered mask replaced by what stands behind it.

    Raises BadChange for a mask that hides nothing, was changed, or stands where its secret would be shown.
    """
    return _merged(value, secrets, "$", is_hidden=False)


def _merged(value: Any, secrets: dict[int, Secret], path: str, *, is_hidden: bool) -> Any:
    if isinstance(value, Members):
        return Members(
            (key, _merged(child, secrets, f"{path}.{key}", is_hidden=is_hidden or is_secret(key)))
            for key, child in value
        )
    if isinstance(value, list):
        return [_merged(child, secrets, f"{path}[{n}]", is_hidden=is_hidden) for n, child in enumerate(value)]
    if isinstance(value, str) and MASK in value:
        return _behind(value, secrets, path, is_hidden=is_hidden)
    return value


def _behind(shown: str, secrets: dict[int, Secret], path: str, *, is_hidden: bool) -> Any:
    found = _NUMBERED.search(shown)
    secret = secrets.get(int(found[1])) if found else None
    if secret is None:
        raise BadChange("payload", f"has a mask at {path} that hides nothing: keep the mask with its number")
    if secret.shown != shown:
        raise BadChange("payload", f"has at {path} a text around a mask that was changed: write the text in full")
    if secret.is_whole and not is_hidden:
        raise BadChange("payload", f"has a mask at {path}, where its value would be shown: masks stay under their keys")
    return secret.value


def masked_again(value: Any) -> Any:
    """Return what was typed with masks left as they are and every other secret masked without a number."""
    if isinstance(value, Members):
        return Members((key, _covered(child) if is_secret(key) else masked_again(child)) for key, child in value)
    if isinstance(value, list):
        return [masked_again(child) for child in value]
    return mask_text(value) if isinstance(value, str) and MASK not in value else value


def _covered(value: Any) -> str:
    return value if isinstance(value, str) and _NUMBERED.fullmatch(value) else f"{MASK} (new)"


def without_numbers(text: str) -> str:
    """Return a text with its masks as everywhere else."""
    return _NUMBERED.sub(MASK, text)


# --- differences


def difference(before: str, after: str, *, context: int = 3) -> Sequence[Line]:
    """Return how two texts differ, line by line; empty when they do not."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return [Line(kind="gap", text=f"More than {MAX_COMPARED_LINES:,} lines: they are not compared.")]
    lines = [_line(text) for text in list(difflib.unified_diff(old, new, lineterm="", n=context))[2:]]
    if len(lines) > MAX_DIFF_LINES:
        cut = Line(kind="gap", text=f"… {len(lines) - MAX_DIFF_LINES:,} more lines")
        return [*lines[:MAX_DIFF_LINES], cut]
    return lines


_KINDS = {"+": "added", "-": "removed", " ": "same"}


def _line(text: str) -> Line:
    return Line(kind=_KINDS[text[0]], text=text[1:]) if text[0] in _KINDS else Line(kind="gap", text=text)
