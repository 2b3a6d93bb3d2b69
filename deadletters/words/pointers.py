"""Places in JSON, as JSON pointers (RFC 6901), and what stands there."""

import json
from typing import Any

from deadletters.words.errors import BadChange
from deadletters.words.jsontexts import MAX_DEPTH, Verbatim, written
from queues.words.payloads import depth_of
from queues.words.redaction import is_secret, mask_text

MAX_POINTER = 500
"""Characters of a place that can be asked for."""


def pointer_to(place: str, name: str) -> str:
    """Return the place of a member of an object."""
    return f"{place}/{name.replace('~', '~0').replace('/', '~1')}"


def masked_at(text: str, pointer: str) -> str:
    """Return what is masked at a place of a JSON text: a text as it is, a number with its digits, else JSON.

    Raises BadChange where nothing is, where it is not masked, and for a text that cannot be read.
    """
    value, is_hidden = _parsed(text), False
    for name in _names(pointer):
        value, is_hidden = _step(value, name), is_hidden or is_secret(name)
    found = value if isinstance(value, str) else written(value)
    if not is_hidden and mask_text(found) == found:
        raise BadChange("field", "is not masked")
    return found


def _names(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise BadChange("field", "is no place in the payload")
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]


def _step(value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    is_place = name.isascii() and name.isdigit() and len(name) < 10
    if isinstance(value, list) and is_place and int(name) < len(value):
        return value[int(name)]
    raise BadChange("field", "is not there (any more)")


def _parsed(text: str) -> Any:
    if depth_of(text) > MAX_DEPTH:
        raise BadChange("field", "is in a payload that nests too deep to be read; download it")
    try:
        return json.loads(text, parse_int=Verbatim, parse_float=Verbatim, parse_constant=Verbatim)
    except ValueError as exc:
        raise BadChange("field", "is in a payload that is no JSON; download it") from exc
