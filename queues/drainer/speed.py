"""How long handlers take in this process, so that a slow one does not keep a group's commit waiting."""

from collections import defaultdict, deque

from queues.conf import conf
from queues.words.sources import Queue

Kind = tuple[Queue, str]
"""A message type in its queue: to publish one takes another time than to handle it."""

_KEPT = 20
_durations: defaultdict[Kind, deque[int]] = defaultdict(lambda: deque(maxlen=_KEPT))


def note_duration(kind: Kind, duration_ms: int) -> None:
    """Remember one run."""
    _durations[kind].append(duration_ms)


def is_slow(kind: Kind) -> bool:
    """Say whether a run may outlast a group: its kind is new here, or 1 in 20 took longer than a group may."""
    known = _durations.get(kind)
    if not known:
        return True
    longest = conf().group_ms
    return max(known) > longest and sorted(known)[int(len(known) * 0.95)] > longest
