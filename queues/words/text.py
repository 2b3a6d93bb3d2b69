"""Text that a database can store and a page can show, cut where it is too long."""

import re

from queues.words.foreign import class_name

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


def storable(text: str) -> str:
    """Make visible what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    if "\x00" not in text and text.isascii():
        return text
    without_nul = text.replace("\x00", "\\x00")
    return without_nul.encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str) -> str:
    """Make visible what cannot be stored, and control characters except tabs and line ends."""
    return storable(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text))


def cut(text: str, limit: int) -> str:
    """Return at most about `limit` characters; what is cut says so and how long the text was."""
    return text if len(text) <= limit else f"{text[:limit]}… (cut, {len(text):,} characters)"


def bounded(text: str, limit: int) -> str:
    """Return the visible text, cut like `cut` after making it visible, which may lengthen it."""
    head = visible(text[:limit])
    if len(text) <= limit and len(head) <= limit:
        return head
    return f"{head[:limit]}… (cut, {len(text):,} characters)"


def bounded_middle(text: str, limit: int) -> str:
    """Return the visible text, or its head and tail and in between how many characters there were."""
    if len(text) <= limit:
        whole = visible(text)
        if len(whole) <= limit:
            return whole
    half = limit // 2
    head, tail = visible(text[:half])[:half], visible(text[-half:])[-half:]
    return f"{head}\n… (cut, {len(text):,} characters) …\n{tail}"


def text_of(value: object) -> str:
    """Return str(value), exactly a str, or a description when the value cannot say itself."""
    try:
        return str.__str__(str(value))
    except Exception as exc:  # an exception's own __str__ may raise anything
        return unprintable(value, exc)


def unprintable(value: object, exc: Exception) -> str:
    """Return what is shown of a value whose reading raised."""
    return f"<unprintable {class_name(value)}: {class_name(exc)}>"
