"""Settings of the pages: `DEADLETTERS` in Django's settings, each with its unit and default here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from queues.words.errors import InvalidSetting

MAX_REGION_SECONDS = 60
MAX_PATHS = 100


@dataclass(frozen=True, kw_only=True)
class Conf:
    """The settings; `region_seconds` is REGION_SECONDS."""

    own_code: Sequence[str] = ()
    """How paths of files begin whose frames a traceback shows although they look like a library's."""

    region_seconds: float = 2
    """How long a region of a page may be read before the page is shown without it."""

    def __post_init__(self) -> None:
        paths = self.own_code
        if not (isinstance(paths, list | tuple) and len(paths) <= MAX_PATHS and all(map(_is_path, paths))):
            raise InvalidSetting("OWN_CODE", paths, f"a list of at most {MAX_PATHS} beginnings of paths, none empty")
        seconds = self.region_seconds
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (is_number and 0 < seconds <= MAX_REGION_SECONDS):
            want = f"a number of seconds, more than 0 and at most {MAX_REGION_SECONDS}"
            raise InvalidSetting("REGION_SECONDS", seconds, want)


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
