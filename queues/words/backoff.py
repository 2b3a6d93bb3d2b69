"""How long a failed message waits."""

from datetime import timedelta


def backoff(failures: int, *, base: timedelta, factor: float, cap: timedelta, spread: float) -> timedelta:
    """Return base x factor^(failures - 1), at most `cap`, between half and all of it by `spread` in [0, 1)."""
    try:
        # As a float the power of a huge count overflows at once; as an int it would be computed digit by digit.
        full = min(base * float(factor) ** (max(failures, 1) - 1), cap)
    except OverflowError:
        full = cap
    return full * (0.5 + spread / 2)
