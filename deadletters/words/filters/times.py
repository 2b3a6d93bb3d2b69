"""Times in filters: absolute, or so long ago."""

import re
from datetime import UTC, datetime, timedelta

from deadletters.words.errors import BadFilter

_AGO = re.compile(r"(\d{1,4})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def time_words(text: str) -> str:
    """Say a time of a filter in words; one without a zone is in UTC."""
    ago = _AGO.fullmatch(text)
    if ago is None:
        return text if datetime.fromisoformat(text).tzinfo else f"{text} UTC"
    count, unit = int(ago[1]), _UNITS[ago[2]]
    return f"{count} {unit if count != 1 else unit[:-1]} ago"


def moment_of(name: str, text: str, now: datetime) -> datetime | None:
    """Read the time of a filter; "24h" counts back from `now`, one without a zone is in UTC. Raises BadFilter."""
    if not text:
        return None
    ago = _AGO.fullmatch(text)
    if ago:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadFilter(f"“{text}” is no time for “{name}”; write 24h, 7d or 2026-01-31T12:00.") from exc
