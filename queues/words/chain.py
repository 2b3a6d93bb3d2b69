"""The exceptions behind an exception, outermost first."""

from collections.abc import Iterator

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
    behind = list(node.exceptions) if isinstance(node, BaseExceptionGroup) else []
    if isinstance(node, Carrier) and node.carried is not None:
        behind.append(node.carried)
    if node.__cause__ is not None:
        behind.append(node.__cause__)
    elif node.__context__ is not None and not node.__suppress_context__:
        behind.append(node.__context__)
    return behind
