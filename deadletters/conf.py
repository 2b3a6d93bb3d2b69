"""Settings of the pages: `DEADLETTERS` in Django's settings, each with its unit and default here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from queues.words.errors import InvalidSetting

MAX_REGION_SECONDS = 60
MAX_PAGE_SECONDS = 600
MAX_PATHS = 100


@dataclass(frozen=True, kw_only=True)
class Conf:
    """The settings; `region_seconds` is REGION_SECONDS."""

    own_code: Sequence[str] = ()
    """How paths of files begin whose frames a traceback shows although they look like a library's."""

    region_seconds: float = 2
    """How long a region of a page may be read before the page is shown without it."""

    page_seconds: float = 10
    """How long all that a page reads may take together, or one statement of an action, before that is given up."""

    def __post_init__(self) -> None:
        _check_seconds("REGION_SECONDS", self.region_seconds, MAX_REGION_SECONDS)
        _check_seconds("PAGE_SECONDS", self.page_seconds, MAX_PAGE_SECONDS)
        paths = self.own_code
        if not (isinstance(paths, list | tuple) and len(paths) <= MAX_PATHS and all(map(_is_path, paths))):
            raise InvalidSetting("OWN_CODE", paths, f"a list of at most {MAX_PATHS} beginnings of paths, none empty")


def _check_seconds(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise InvalidSetting(name, value, f"a number of seconds, more than 0 and at most {most}")


def _is_path(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


@cache
def conf() -> Conf:
    """Return the settings in force; raises InvalidSetting for a bad value or an unknown name."""
    given: dict[str, Any] = {name.lower(): value for name, value in getattr(settings, "DEADLETTERS", {}).items()}
    known = {f.name for f in fields(Conf)}
    for name, value in given.items():
        if name not in known:
            raise InvalidSetting(name.upper(), value, "a known setting: " + ", ".join(sorted(n.upper() for n in known)))
    return Conf(**given)


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DEADLETTERS":
        conf.cache_clear()


setting_changed.connect(_forget)
