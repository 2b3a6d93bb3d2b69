"""The exceptions behind an exception, outermost first."""

from collections.abc import Iterator
from typing import Any

from queues.words.foreign import is_a, read

MAX_NODES = 10_000


class Carrier(Exception):
    """An exception that was given another one, whatever a later `from` says about its cause."""

    carried: BaseException | None = None


def walk(exc: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, its contexts unless suppressed, and every leaf of a group; each once.

    At most MAX_NODES are visited; a cycle ends where it began.
    """
    seen: set[int] = set()
    waiting = [exc]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(_behind(node)))


def _behind(node: BaseException) -> list[BaseException]:
    leaves = read(node, "exceptions") if is_a(node, BaseExceptionGroup) else ()
    carried = node.carried if is_a(node, Carrier) else None
    cause = read(node, "__cause__")
    context = None if cause is not None or read(node, "__suppress_context__") is True else read(node, "__context__")
    behind: list[Any] = [*(leaves if is_a(leaves, tuple) else ()), carried, cause, context]
    return [exc for exc in behind if is_a(exc, BaseException)]  # a class may say anything of itself
