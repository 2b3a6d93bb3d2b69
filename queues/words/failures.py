"""What crosses the dead-letter boundary: a message, the subjects it is about, and detail."""

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from queues.words.chain import walk
from queues.words.text import cut, cut_middle, storable, text_of

E = TypeVar("E", bound=BaseException)
_LAYERS = "__deadletters_attribution__"


@dataclass(frozen=True)
class Subject:
    """An entity that a failure is about; the domain chooses the types."""

    type: str
    id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", text_of(self.type))
        object.__setattr__(self, "id", text_of(self.id))


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much of a failure is kept: characters of each text, numbers of each list."""

    message: int = 8_000
    trace: int = 32_000
    frames: int = 60
    causes: int = 20
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
        """Read back what was stored; a malformed structure makes a message-only failure."""
        message, _, trace = (text or "").partition("\n")
        structure = structure if isinstance(structure, Mapping) else {}
        detail = structure.get("detail")
        return cls(
            message=message,
            trace=trace,
            subjects=tuple(_read_subjects(structure.get("subjects"))),
            detail=detail if isinstance(detail, Mapping) else {},
        )


def _read_subjects(stored: Any) -> Iterator[Subject]:
    for entry in stored if isinstance(stored, list) else []:
        if isinstance(entry, Mapping) and "type" in entry and "id" in entry:
            yield Subject(entry["type"], entry["id"])


@dataclass(frozen=True)
class _Layer:
    subjects: tuple[Subject, ...]
    detail: Mapping[str, Any]


def attribute(exc: E, *subjects: Subject) -> E:
    """Attach subjects to an exception and return it; type, text and classification stay as they are."""
    return _attach(exc, _Layer(subjects, {}))


def detail(exc: E, mapping: Mapping[str, Any]) -> E:
    """Attach detail to an exception and return it."""
    return _attach(exc, _Layer((), dict(mapping)))


def _attach(exc: E, layer: _Layer) -> E:
    if exc is not None:
        layers = (*getattr(exc, _LAYERS, ()), layer)
        try:
            setattr(exc, _LAYERS, layers)
        except AttributeError:  # an exception with slots cannot carry it
            exc.add_note(f"about {', '.join(f'{s.type} {s.id}' for s in layer.subjects)}")
    return exc


@contextmanager
def attributed(*subjects: Subject, **given: Any) -> Iterator[None]:
    """Attach subjects and detail to any exception that leaves the block."""
    try:
        yield
    except Exception as exc:
        _attach(exc, _Layer(subjects, given))
        raise


def attribution(exc: BaseException, bounds: Bounds = DEFAULT) -> Failure:
    """Read the failure off an exception: its text and trace, and what all layers of its chain attached.

    Subjects come outermost first without exact duplicates; of a detail key the outermost layer wins. All parts
    are bounded, and storable whatever they hold.
    """
    layers = [layer for node in walk(exc) for layer in reversed(getattr(node, _LAYERS, ()))]
    return Failure(
        message=storable(cut(message_of(exc, bounds.message), bounds.message)),
        trace=storable(cut_middle(_trace(exc, bounds), bounds.trace)),
        subjects=_subjects(layers, bounds),
        detail=_detail(layers, bounds),
    )


def message_of(exc: BaseException, limit: int = DEFAULT.message) -> str:
    """Return "Type: text" as a traceback writes it, with the module of a type that is not built in."""
    kind = type(exc)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    text = text_of(exc)
    return f"{name}: {text}" if text else name


def _trace(exc: BaseException, bounds: Bounds) -> str:
    """Return the traceback of the chain, the newest part first, frames and texts of each part bounded."""
    parts = []
    for node in islice(walk(exc), bounds.causes):
        frames = _frames(node, bounds)
        if frames:
            parts.append(f"{frames}{cut(message_of(node), bounds.subject)}")
    return "\n\n".join(parts)


def _frames(node: BaseException, bounds: Bounds) -> str:
    first = list(islice(traceback.walk_tb(node.__traceback__), bounds.frames + 1))
    stack = traceback.StackSummary.extract(iter(first[: bounds.frames]), lookup_lines=True)
    text = "".join(stack.format())
    return text + (f"  … more than {bounds.frames} frames\n" if len(first) > bounds.frames else "")


def _subjects(layers: list[_Layer], bounds: Bounds) -> tuple[Subject, ...]:
    unique = dict.fromkeys(subject for layer in layers for subject in layer.subjects)
    kept = tuple(_storable_subject(subject, bounds) for subject in islice(unique, bounds.subjects))
    if len(unique) <= bounds.subjects:
        return kept
    return (*kept[:-1], Subject("cut", f"{len(unique):,} subjects"))


def _storable_subject(subject: Subject, bounds: Bounds) -> Subject:
    return Subject(*(storable(cut(part, bounds.subject)) for part in (subject.type, subject.id)))


def _detail(layers: list[_Layer], bounds: Bounds) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    budget = _Budget(left=bounds.detail)
    for layer in layers:
        for key, value in islice(layer.detail.items(), bounds.detail_items):
            name = storable(cut(text_of(key), 200))
            if name not in merged:
                merged[name] = _plain(value, bounds, budget, bounds.detail_depth)
    return merged


@dataclass
class _Budget:
    left: int

    def take(self, text: str) -> str:
        kept = cut(text, max(self.left, 0))
        self.left -= len(kept)
        return kept


def _plain(value: Any, bounds: Bounds, budget: _Budget, depth: int) -> Any:
    """Return the value as JSON that PostgreSQL takes: not-a-number as text, what is no JSON as its repr, all bounded."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < 512 else f"{value.bit_length():,}-bit number"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return storable(budget.take(value))
    if depth <= 0 or budget.left <= 0:
        return "… (cut)"
    if isinstance(value, Mapping):
        pairs = islice(value.items(), bounds.detail_items)
        plain = {storable(budget.take(text_of(k))): _plain(v, bounds, budget, depth - 1) for k, v in pairs}
        return _say_cut(plain, len(value), bounds)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_plain(item, bounds, budget, depth - 1) for item in islice(value, bounds.detail_items)]
        return items if len(value) <= bounds.detail_items else [*items, f"… (cut, {len(value):,} items)"]
    return storable(budget.take(text_of(value)))


def _say_cut(plain: dict[str, Any], size: int, bounds: Bounds) -> dict[str, Any]:
    return plain if size <= bounds.detail_items else {**plain, "…": f"cut, {size:,} keys"}
