"""What the tests of failures raise: one plain exception, and some that nobody expects; the subjects of them."""

from collections.abc import Iterator, Mapping

from queues.words.failures import Subject

ORDER, QUEUE, TENANT = Subject("order", "42"), Subject("queue", "q"), Subject("tenant", "t")


class CardDeclined(Exception): ...


class Mute(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("no")

    __repr__ = __str__


class Bottomless(Exception):
    def __str__(self) -> str:
        return str(self)


class Hidden(Exception):
    """Raises for every attribute, also for those that Python gives it."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


class Broken(Mapping[str, int]):
    """A collection that raises."""

    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def raised(exc: BaseException, *, cause: BaseException | None = None) -> BaseException:
    """Raise it and return what was caught: with a traceback."""
    try:
        raise exc from cause
    except BaseException as caught:
        return caught
