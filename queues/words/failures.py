"""What crosses the dead-letter boundary: a message, the subjects it is about, and detail."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from types import TracebackType
from typing import Any, TypeVar

from queues.words.chain import walk
from queues.words.foreign import is_a
from queues.words.plain import Room, plain_pairs
from queues.words.text import bounded, bounded_middle, text_of
from queues.words.traces import HEADER, TraceBounds, name_and_text, trace_of

_OWN_DICT = BaseException.__dict__["__dict__"]
E = TypeVar("E", bound=BaseException | None)
_LAYERS = "__deadletters_attribution__"


@dataclass(frozen=True)
class Subject:
    """An entity that a failure is about; the domain chooses the types."""

    type: str
    id: str

    def __post_init__(self) -> None:
        for name, part in (("type", self.type), ("id", self.id)):
            if type(part) is not str:
                object.__setattr__(self, name, text_of(part))


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much of a failure is kept: characters of each text, numbers of each list."""

    message: int = 8_000
    trace: int = 32_000
    frames: int = 60
    causes: int = 20
    cause: int = 500
    subjects: int = 100
    subject: int = 500
    detail: int = 16_000
    detail_items: int = 200
    detail_depth: int = 10


DEFAULT = Bounds()


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a run failed. Without subjects and detail it is unattributed, which is not "nothing was to blame"."""

    message: str
    trace: str = ""
    subjects: tuple[Subject, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Message and traceback, as the `error` column keeps them."""
        return f"{self.message}\n{self.trace}" if self.trace else self.message

    def structure(self) -> dict[str, Any] | None:
        """Return {"subjects": [{"type", "id"}], "detail": {…}} without empty halves; None when unattributed."""
        subjects = [{"type": subject.type, "id": subject.id} for subject in self.subjects]
        halves = {"subjects": subjects, "detail": dict(self.detail)}
        return {name: half for name, half in halves.items() if half} or None

    def ids(self, subject_type: str) -> tuple[str, ...]:
        """Return the ids of the subjects of one type, in order."""
        return tuple(subject.id for subject in self.subjects if subject.type == subject_type)

    @classmethod
    def from_stored(cls, text: str | None, structure: Mapping[str, Any] | None) -> "Failure":
        """Read back what was stored; a malformed structure makes a message-only failure.

        The trace begins at the first line that says so; without one the first line is the message.
        """
        whole = text or ""
        message, marked, rest = whole.partition(f"\n{HEADER}\n")
        trace = f"{HEADER}\n{rest}" if marked else ""
        if not marked:
            message, _, trace = whole.partition("\n")
        halves = structure if isinstance(structure, Mapping) else {}
        stored = halves.get("detail")
        return cls(
            message=message,
            trace=trace,
            subjects=tuple(_read_subjects(halves.get("subjects"))),
            detail=stored if isinstance(stored, Mapping) else {},
        )


def _read_subjects(stored: Any) -> Iterator[Subject]:
    for entry in stored if isinstance(stored, list) else []:
        if isinstance(entry, Mapping) and "type" in entry and "id" in entry:
            yield Subject(entry["type"], entry["id"])


@dataclass(frozen=True)
class _Layer:
    subjects: tuple[Subject, ...]
    detail: Mapping[Any, Any]


def attribute(exc: E, *subjects: Subject) -> E:
    """Attach subjects to an exception and return it; type, text and classification stay as they are."""
    return _attach(exc, _Layer(_as_subjects(subjects), {}))


def detail(exc: E, mapping: Mapping[str, Any]) -> E:
    """Attach detail to an exception and return it."""
    return _attach(exc, _Layer((), _as_detail(mapping)))


def attributed(*subjects: Subject, **given: Any) -> AbstractContextManager[None, None]:
    """Attach subjects and detail to any exception that leaves the block."""
    return _Attributed(_Layer(_as_subjects(subjects), given))


class _Attributed(AbstractContextManager[None, None]):
    def __init__(self, layer: _Layer) -> None:
        self._layer = layer

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(exc, Exception):
            _attach(exc, self._layer)


def _as_subjects(given: tuple[Any, ...]) -> tuple[Subject, ...]:
    """Take anything: a diagnostic must not turn one failure into another. A subject without a type is unknown."""
    return tuple(one if is_a(one, Subject) else Subject("", one) for one in given)


def _as_detail(given: Any) -> Mapping[Any, Any]:
    try:
        return dict(given)
    except Exception:  # not a mapping, or one that raises
        return {"detail": given}


def _attach(exc: E, layer: _Layer) -> E:
    if exc is not None:
        _own_dict(exc)[_LAYERS] = (*_own_dict(exc).get(_LAYERS, ()), layer)
    return exc


def _own_dict(exc: BaseException) -> dict[str, Any]:
    """Return what an exception's attributes are kept in: a class may refuse setattr, or hide `__dict__` itself."""
    own: dict[str, Any] = _OWN_DICT.__get__(exc)
    return own


def attribution(exc: BaseException, bounds: Bounds = DEFAULT) -> Failure:
    """Read the failure off an exception: its text and trace, and what all layers of its chain attached.

    Subjects come outermost first without exact duplicates; of a detail key the outermost layer wins. All parts
    are bounded, and storable whatever they hold.
    """
    layers = [layer for node in walk(exc) for layer in reversed(_own_dict(node).get(_LAYERS, ()))]
    unique = dict.fromkeys(subject for layer in layers for subject in layer.subjects)
    trace = trace_of(exc, TraceBounds(causes=bounds.causes, frames=bounds.frames, text=bounds.cause))
    return Failure(
        message=bounded(name_and_text(exc), bounds.message),
        trace=bounded_middle(trace, bounds.trace),
        subjects=tuple(_bounded_subject(subject, bounds) for subject in islice(unique, bounds.subjects)),
        detail=_detail(layers, len(unique), bounds),
    )


def _bounded_subject(subject: Subject, bounds: Bounds) -> Subject:
    return Subject(*(bounded(part, bounds.subject) for part in (subject.type, subject.id)))


def _detail(layers: list[_Layer], subjects: int, bounds: Bounds) -> dict[str, Any]:
    room = Room(characters=bounds.detail, items=bounds.detail_items, depth=bounds.detail_depth)
    pairs = chain.from_iterable(layer.detail.items() for layer in layers)
    kept = plain_pairs(pairs, room)
    return kept if subjects <= bounds.subjects else {**kept, "… subjects": f"cut, {subjects:,} in all"}
