"""What PostgreSQL can store, told apart from what the product does to make text storable."""

from collections.abc import Iterator
from typing import Any


def is_storable(text: str) -> bool:
    """Say whether PostgreSQL takes it: no NUL, no lone surrogate."""
    return "\x00" not in text and text == text.encode("utf-8", "replace").decode()


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, keys too."""
    match value:
        case str():
            yield value
        case dict():
            for part in (*value, *value.values()):
                yield from texts_in(part)
        case list():
            for part in value:
                yield from texts_in(part)
