from queues.words.chain import MAX_NODES, walk


def caught(raise_it: object) -> BaseException:
    try:
        raise_it()  # type: ignore[operator]
    except BaseException as exc:
        return exc
    raise AssertionError("nothing was raised")


def test_walk_follows_causes_outermost_first() -> None:
    def fail() -> None:
        try:
            raise KeyError("inner")
        except KeyError as exc:
            raise ValueError("outer") from exc

    assert [type(node) for node in walk(caught(fail))] == [ValueError, KeyError]


def test_walk_follows_the_implicit_context() -> None:
    def fail() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("while handling")  # noqa: B904

    assert [type(node) for node in walk(caught(fail))] == [ValueError, KeyError]


def test_walk_stops_at_a_suppressed_context() -> None:
    def fail() -> None:
        try:
            raise KeyError("hidden")
        except KeyError:
            raise ValueError("alone") from None

    assert [type(node) for node in walk(caught(fail))] == [ValueError]


def test_walk_prefers_the_explicit_cause_to_the_context() -> None:
    outer, cause, context = ValueError(), KeyError(), OSError()
    outer.__context__ = context
    outer.__cause__ = cause

    assert list(walk(outer)) == [outer, cause]


def test_walk_visits_every_leaf_of_nested_groups_and_what_is_behind_each() -> None:
    behind = OSError()
    first, second, third = KeyError(), ValueError(), TypeError()
    second.__cause__ = behind
    inner = ExceptionGroup("inner", [second, third])
    group = ExceptionGroup("outer", [first, inner])

    assert list(walk(group)) == [group, first, inner, second, behind, third]


def test_walk_visits_the_leaves_of_a_group_that_is_a_cause() -> None:
    leaf = KeyError()
    outer = RuntimeError()
    outer.__cause__ = ExceptionGroup("g", [leaf])

    assert leaf in list(walk(outer))


def test_walk_ends_in_a_cycle() -> None:
    first, second = KeyError(), ValueError()
    first.__cause__, second.__cause__ = second, first

    assert list(walk(first)) == [first, second]


def test_walk_yields_a_shared_exception_once() -> None:
    shared = OSError()
    first, second = KeyError(), ValueError()
    first.__cause__ = second.__cause__ = shared

    assert list(walk(ExceptionGroup("g", [first, second]))).count(shared) == 1


def test_walk_is_bounded() -> None:
    group = ExceptionGroup("many", [KeyError(number) for number in range(MAX_NODES + 5)])

    assert sum(1 for _ in walk(group)) == MAX_NODES
