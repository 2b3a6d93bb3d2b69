"""Text that a database can store and a page can show, cut where it is too long."""


def storable(text: str) -> str:
    """Make visible what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    if "\x00" not in text and text.isascii():
        return text
    visible = text.replace("\x00", "\\x00")
    return visible.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, limit: int) -> str:
    """Return at most about `limit` characters; what is cut says so and how long the text was."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (cut, {len(text):,} characters)"


def cut_middle(text: str, limit: int) -> str:
    """Keep head and tail of a long text, and say in between what is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… (cut, {len(text):,} characters) …\n{text[-half:]}"


def text_of(value: object) -> str:
    """Return str(value), or a description when the value cannot say itself."""
    try:
        return str(value)
    except Exception as exc:  # an exception's own __str__ may raise anything
        return f"<unprintable {type(value).__name__}: {type(exc).__name__}>"
