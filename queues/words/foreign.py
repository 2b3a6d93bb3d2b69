"""Looking at objects of others: whatever their classes do, looking never raises.

Not by isinstance, which asks an object for its `__class__`.
"""

from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")
_NAME = type.__dict__["__name__"]


def read(holder: object, name: str) -> Any:
    """Return an attribute, or None where there is none or reading it raises."""
    try:
        return getattr(holder, name, None)
    except Exception:  # a property may raise anything
        return None


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    return issubclass(type(value), kind)


def exact_text(value: object) -> str | None:
    """Return the text that a str, an enum's member or another subclass holds, whatever it says; None for the rest."""
    return str.__str__(value) if is_a(value, str) else None


def class_name(value: object) -> str:
    """Return the name of the value's class."""
    name: str = _NAME.__get__(type(value))
    return name


def qualified(kind: type) -> str:
    """Return "module.Name" of a class, without the module when the class does not name one."""
    module, name = exact_text(read(kind, "__module__")), exact_text(read(kind, "__qualname__")) or "?"
    return f"{module}.{name}" if module else name
