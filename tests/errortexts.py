"""Error texts as drainers record them, and what a fault is known by."""

from types import CodeType
from typing import Any

from deadletters.words.fingerprints import Fingerprint, fingerprint
from queues.words.failures import attribution

HEADER = "Traceback (most recent call last):"
ENGINE = "/srv/v/lib/python3.11/site-packages/queues/drainer/runs.py:call"
HANDLER = "/opt/app-1/shop/handlers.py:charge"
LIBRARY = "/srv/v/lib/python3.11/site-packages/httpx/_client.py:send"
STANDARD = "/usr/lib/python3.11/json/decoder.py:decode"


def known_by(error_text: str | None, **known: Any) -> Fingerprint:
    return fingerprint(error_text, **{"cause": "budget_spent", "reason": 5} | known)


def value(error_text: str) -> str:
    return known_by(error_text).value


def part(says: str, *frames: str, first_line: int = 10) -> str:
    """Write one exception as it is recorded; a frame is file:function."""
    lines = []
    for number, frame in enumerate(frames):
        file, _, function = frame.rpartition(":")
        lines += [
            f'  File "{file}", line {first_line + 7 * number}, in {function}',
            f"    call({number})",
            "    ~~~~^^",
        ]
    return "\n".join([HEADER, *lines, says] if frames else [says])


def recorded(says: str, *frames: str, behind: tuple[str, ...] = (), first_line: int = 10) -> str:
    """Write an error text as drainers record it: the message, the traceback, what is behind it."""
    return "\n".join([says, "\n\nBehind it:\n".join([part(says, *frames, first_line=first_line), *behind])])


def raised(source: str, file: str, *, blank_lines: int = 0, **names: Any) -> str:
    """Run a source as if it lay in a file; return what is recorded of the exception that it raises."""
    code: CodeType = compile("\n" * blank_lines + source, file, "exec")
    try:
        exec(code, {"__name__": "shop.handlers", **names})
    except Exception as exc:
        return attribution(exc).text
    raise AssertionError("the source raises nothing")


BASE = ("ValueError: no", ENGINE, HANDLER, "/opt/app-1/shop/orders.py:load")
