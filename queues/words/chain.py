"""The exceptions behind an exception, outermost first."""

from collections.abc import Iterator

MAX_NODES = 1000


def walk(exc: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, its contexts unless suppressed, and every leaf of a group; each once.

    Breadth is bounded by MAX_NODES; a cycle ends where it began.
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
    members = list(node.exceptions) if isinstance(node, BaseExceptionGroup) else []
    if node.__cause__ is not None:
        return [*members, node.__cause__]
    if node.__context__ is not None and not node.__suppress_context__:
        return [*members, node.__context__]
    return members
