"""What PostgreSQL can store, told apart from what the product does to make text storable."""

import json
from collections.abc import Iterator
from typing import Any

from queues.words.failures import Failure


def is_storable(text: str) -> bool:
    """Say whether PostgreSQL takes it: no NUL, no lone surrogate."""
    return "\x00" not in text and text == text.encode("utf-8", "replace").decode()


def is_failure_storable(failure: Failure) -> bool:
    """Say whether PostgreSQL takes it: as text, and as JSON without NUL, lone surrogates and NaN."""
    structure = failure.structure()
    json.dumps(structure, allow_nan=False)
    return all(map(is_storable, [failure.text, *texts_in(structure)]))


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
