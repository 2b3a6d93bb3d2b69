"""Any graph of exceptions is recorded, whatever its classes do: bounded, and so that a database takes it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.failures import Bounds, Failure, Subject, attribute, attributed, attribution, detail
from queues.words.outcomes import Delay, Terminal, Verdict, rule
from tests.raising import Bottomless, Hidden, Mute
from tests.storable import is_storable, texts_in

# --- exceptions that nobody expects


class Wrong(Exception):
    def __str__(self) -> Any:
        return 7


class Sly(Exception):
    """Has properties that raise where something is looked for."""

    @property
    def _raising(self) -> Any:
        raise LookupError("not now")

    sqlstate = pgcode = response = status = status_code = code = errno = _raising
    __cause__ = __context__ = __traceback__ = __dict__ = __class__ = _raising  # type: ignore[assignment]


class Liar(Exception):
    """Says of itself what cannot be."""

    __module__ = 7  # type: ignore[assignment]
    __cause__ = "a text"  # type: ignore[assignment]
    __traceback__ = 7  # type: ignore[assignment]
    sqlstate = code = response = object()


class Slotted(Exception):
    __slots__ = ("code",)


@dataclass(frozen=True)
class Frozen(Exception):
    code: str = "x\x00"


class Nameless(type):
    """Makes classes that say nothing of themselves."""

    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class MuteMeta(Mute, metaclass=Nameless):
    pass


class Meta(Exception, metaclass=Nameless):
    pass


class Group(ExceptionGroup[Exception]):
    @property
    def exceptions(self) -> Any:
        raise RuntimeError("no leaves")


class Numbered(ExceptionGroup[Exception]):
    exceptions = 7  # type: ignore[assignment]


class Compared(Exception):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __bool__(self) -> bool:
        raise RuntimeError("no")


def cycle() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


# Drawn as words and numbers, and built afterwards: Hypothesis itself stumbles over what is built.

KINDS: dict[str, Callable[[str], BaseException]] = {
    kind.__name__: kind
    for kind in (ValueError, KeyError, Mute, Bottomless, Wrong, Hidden, Sly, Liar, Slotted, Frozen, Compared, Terminal)
}
KINDS |= {
    "Meta": Meta,
    "MuteMeta": MuteMeta,
    "Delay": lambda text: Delay(1, text),
    "OSError": lambda text: OSError(13, text),
    "UnicodeDecodeError": lambda text: UnicodeDecodeError("utf-8", b"\xff", 0, 1, text),
    "SystemExit": SystemExit,
    "Group": lambda text: Group(text, [ValueError(text)]),
    "Numbered": lambda text: Numbered(text, [ValueError(text)]),
    "Named": lambda text: type(f"Named {text[:50]!a}", (Exception,), {})(text),
    "Terminal of Hidden": lambda text: Terminal(Hidden(text)),
}
THINGS: dict[str, Callable[[str], Any]] = KINDS | {
    "digits": lambda _: 10**5_000,
    "class": lambda _: Meta,
    "object": lambda _: object(),
    "cycle": lambda _: cycle(),
}
LONG = {"long": "x" * 10_000, "nuls": "\x00" * 3_000}
TEXTS = st.sampled_from(["", "text", "a\x00b", "\ud800", "\x1b[31m", "line\nline", "'" * 9, "💥", *LONG])
LEAF = st.tuples(st.sampled_from(sorted(KINDS)), TEXTS)
PLAIN = TEXTS | st.integers() | st.floats() | st.none() | st.binary(max_size=9)
VALUE = st.recursive(
    PLAIN | st.tuples(st.sampled_from(sorted(THINGS)), TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | st.integers(), inner, max_size=4),
    max_leaves=8,
)
EDGE = st.tuples(st.sampled_from(["__cause__", "__context__"]), st.integers(0, 9), st.integers(0, 9))
ATTACHED = st.tuples(st.integers(0, 9), st.lists(st.tuples(VALUE, VALUE), max_size=4), VALUE)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Exceptions that stand behind each other in any way, also in circles and in groups."""

    leaves: list[tuple[str, str]]
    groups: list[list[int]]
    edges: list[tuple[str, int, int]]
    attached: list[tuple[int, list[tuple[Any, Any]], Any]]
    outermost: int
    is_raised: bool

    def build(self) -> BaseException:
        nodes = [built(leaf) for leaf in self.leaves]
        for members in self.groups:
            nodes.append(BaseExceptionGroup("several", [nodes[number % len(nodes)] for number in members]))
        for name, outer, inner in self.edges:
            BaseException.__dict__[name].__set__(nodes[outer % len(nodes)], nodes[inner % len(nodes)])
        for number, subjects, given_detail in self.attached:
            node = nodes[number % len(nodes)]
            attribute(node, *(Subject(built(kind), built(name)) for kind, name in subjects), built(given_detail))
            detail(node, built(given_detail))
        outermost = nodes[self.outermost % len(nodes)]
        return raised(outermost) if self.is_raised else outermost


PLANS = st.builds(
    Plan,
    leaves=st.lists(LEAF, min_size=1, max_size=6),
    groups=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=2),
    edges=st.lists(EDGE, max_size=6),
    attached=st.lists(ATTACHED, max_size=4),
    outermost=st.integers(0, 9),
    is_raised=st.booleans(),
)


def built(value: Any) -> Any:
    """Return the value that is meant by what was drawn: a tuple stands for what it names."""
    match value:
        case tuple():
            return THINGS[value[0]](built(value[1]))
        case str():
            return LONG.get(value, value)
        case list():
            return [built(inner) for inner in value]
        case dict():
            return {built(key): built(inner) for key, inner in value.items()}
        case _:
            return value


def raised(exc: BaseException) -> BaseException:
    try:
        with attributed(Subject("order", "42")):
            raise exc
    except BaseException as caught:
        return caught


TIGHT = Bounds(
    message=200, trace=1_000, frames=3, causes=3, cause=100, subjects=3, subject=20, detail=300, detail_items=4
)


@given(PLANS, st.sampled_from([TIGHT, Bounds()]))
@settings(max_examples=60)
def test_any_exceptions_are_recorded_bounded_and_storable(plan: Plan, bounds: Bounds) -> None:
    failure = attribution(plan.build(), bounds)

    structure = failure.structure()
    stored = json.dumps(structure, allow_nan=False)
    assert is_storable(failure.text)
    assert all(is_storable(text) for text in texts_in(structure))
    assert failure.message
    assert len(failure.text) <= bounds.message + bounds.trace + 200
    assert len(failure.subjects) <= bounds.subjects
    assert len(json.dumps(structure, ensure_ascii=False)) <= 2 * bounds.detail + bounds.subjects * (
        2 * bounds.subject + 150
    )
    assert Failure.from_stored(failure.text, json.loads(stored)).structure() == structure


@given(PLANS)
@settings(max_examples=60)
def test_any_exceptions_get_a_ruling_and_none_is_permanent_without_being_asked_for(plan: Plan) -> None:
    exc = plan.build()

    ruling = rule(exc, DEFAULT_CLASSIFIERS)

    assert ruling == rule(exc, DEFAULT_CLASSIFIERS)
    assert (ruling.delay is not None) == (ruling.verdict is Verdict.DELAY)
