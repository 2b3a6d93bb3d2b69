"""In which order a chain of exceptions is judged."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queues.words.outcomes import Classification, Delay, FailureReason, Ruling, Terminal, Verdict, rule


class Known(Exception):
    """One that the classifiers below may know."""


Words = Sequence[Classification | None]
REASONS = st.sampled_from([FailureReason.THROTTLED, FailureReason.VALIDATION_ERROR, FailureReason.TRANSPORT_EXCEPTION])
WORDS = st.none() | st.builds(Classification, permanent=st.booleans(), reason=REASONS)
CHAINS = st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=4)


def linked(links: Sequence[Exception]) -> Exception:
    """Let each exception be caused by the next, and return the outermost."""
    for outer, inner in pairwise(links):
        outer.__cause__ = inner
    return links[0]


def saying(place: int, said: dict[int, Words]) -> Callable[[BaseException], Classification | None]:
    return lambda exc: said[id(exc)][place]


@given(CHAINS)
def test_the_first_word_on_the_outermost_known_exception_is_the_ruling(chain: list[Words]) -> None:
    links = [Known(str(number)) for number in range(len(chain))]
    said = {id(link): words for link, words in zip(links, chain, strict=True)}

    ruling = rule(linked(links), [saying(place, said) for place in range(3)])

    first = next((word for words in chain for word in words if word is not None), None)
    if first is None:
        assert ruling == Ruling(verdict=Verdict.RETRY, reason=FailureReason.UNKNOWN)
    else:
        verdict = Verdict.TERMINAL if first.permanent else Verdict.RETRY
        assert ruling == Ruling(verdict=verdict, reason=first.reason)


def throttled(exc: BaseException) -> Classification:
    return Classification(permanent=False, reason=FailureReason.THROTTLED)


@given(st.lists(st.sampled_from(["known", "terminal", "delay"]), min_size=1, max_size=6))
def test_a_delay_wins_over_terminal_and_terminal_over_every_class_wherever_they_stand(kinds: list[str]) -> None:
    made = {"known": Known, "terminal": lambda: Terminal("no"), "delay": lambda: Delay(7)}

    ruling = rule(linked([made[kind]() for kind in kinds]), [throttled])

    if "delay" in kinds:
        assert ruling.verdict is Verdict.DELAY
    else:
        assert ruling.verdict is (Verdict.TERMINAL if "terminal" in kinds else Verdict.RETRY)
        assert ruling.reason is FailureReason.THROTTLED


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_of_several_delays_the_outermost_counts(hours: list[int]) -> None:
    delays = [Delay(hour) for hour in hours]

    assert rule(linked(delays), ()).delay == delays[0].by
