"""How long handlers take in this process, so that a slow one does not keep a group's commit waiting."""

from collections import defaultdict, deque

from queues.conf import conf

_KEPT = 20
_durations: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_KEPT))


def note_duration(message_type: str, duration_ms: int) -> None:
    """Remember one run."""
    _durations[message_type].append(duration_ms)


def is_slow(message_type: str) -> bool:
    """Say whether a run may outlast a group: its type is new here, or 1 in 20 took longer than a group may."""
    known = _durations.get(message_type)
    return not known or sorted(known)[int(len(known) * 0.95)] > conf().group_ms
