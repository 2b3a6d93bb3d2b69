"""Any error text has a fingerprint: Python's own, one that is cut, one of another language, and one that is nothing."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.fingerprints import MAX_TITLE, fingerprint, is_readable
from deadletters.words.messagetemplates import MAX_TEMPLATE
from queues.words.failures import attribution
from queues.words.text import visible
from tests.errortexts import BASE, HANDLER, HEADER, known_by, part, recorded, value


def both_texts(raising: str) -> tuple[str, str]:
    """Return Python's own traceback and the recorded text of one exception raised over another."""
    source = f"def find():\n    dict()['a']\ntry:\n    find()\nexcept KeyError as e:\n    {raising}"
    try:
        exec(compile(source, "/a/shop/handlers.py", "exec"), {})
    except Exception as exc:
        exc = exc.with_traceback(exc.__traceback__ and exc.__traceback__.tb_next)
        return "".join(traceback.format_exception(exc)), attribution(exc).text
    raise AssertionError("nothing is raised")


@pytest.mark.parametrize(
    "raising",
    [
        "raise ValueError(1) from e",
        "raise ValueError(1)",
        "raise ValueError(1) from None",
        "raise ExceptionGroup('several', [e, OSError('x')]) from None",
    ],
)
def test_the_traceback_that_python_writes_is_the_same_fault(raising: str) -> None:
    python, ours = both_texts(raising)

    assert value(python) == value(ours)
    assert known_by(python).title in ("ValueError", "ExceptionGroup")
    assert is_readable(python)
    assert is_readable(ours)


def test_that_more_exceptions_lie_behind_than_are_recorded_is_no_exception() -> None:
    behind = (part("OSError: x", "/a/shop/files.py:read"),)

    assert value(recorded(*BASE, behind=(*behind, "… (cut, 25 exceptions in all)"))) == value(
        recorded(*BASE, behind=behind)
    )


def test_an_end_that_is_cut_off_leaves_the_exceptions_that_are_whole() -> None:
    whole = recorded(*BASE, behind=(part("KeyError: 'a'", HANDLER), part("OSError: x", HANDLER)))
    end = whole.rindex("\n    call(0)")

    assert value(whole[:end]) == value(recorded(*BASE, behind=(part("KeyError: 'a'", HANDLER),)))


@given(st.integers(0, 400), st.integers(2, 30))
def test_a_middle_that_is_cut_out_leaves_the_exceptions_that_are_whole(place: int, length: int) -> None:
    frames = ("/a/shop/files.py:read", "/a/shop/files.py:open_one")
    behind = tuple(part(f"OSError: {number}", *frames) for number in range(20))
    text = recorded(*BASE, behind=behind)
    at = text.index("Behind it:") + place
    torn = f"{text[:at]}\n… (cut, 90,000 characters) …\n{text[at + length :]}"

    assert value(torn) == value(text)


def test_a_stack_too_long_to_be_recorded_is_known_by_its_end() -> None:
    stack = recorded("ValueError: no", *["/a/shop/tree.py:down"] * 300, "/a/shop/tree.py:leaf")
    torn = f"{stack[:2000]}\n… (cut, 90,000 characters) …\n{stack[-2000:]}"

    assert value(torn) == value(recorded("ValueError: no", "/a/shop/tree.py:down", "/a/shop/tree.py:leaf"))


def test_a_traceback_within_a_message_does_not_hide_the_real_one() -> None:
    remote = f"shop.Remote: worker says\n{part('KeyError: x', '/far/depot/jobs.py:run')}"

    assert value(recorded(remote, HANDLER)) != value(recorded("shop.Remote: worker says", HANDLER))
    assert value(recorded(remote, HANDLER)) != value(recorded(remote, "/a/shop/handlers.py:refund"))
    assert known_by(recorded(remote, HANDLER)).title == "Remote"


@pytest.mark.parametrize(
    "unit", ["x", "\n", " \n", '\n  File "/a/b/c.py", line 1, in f', f"\n{HEADER}", "'", "\x00", "« "]
)
def test_of_a_text_of_six_million_characters_the_ends_are_read(unit: str) -> None:
    def huge(length: int) -> str:
        text = recorded("ValueError: no", HANDLER)
        return f"{text[:-14]}{unit * (length // len(unit))}{text[-14:]}"

    assert value(huge(6_000_000)) == value(huge(7_000_000))


_PIECES = [
    HEADER,
    *('  File "/a/shop/x.py", line 3, in f', "    call()", "Behind it:", "ValueError [5]: x", "ValueError", "x: y", ""),
    *("… (cut, 5 characters) …", "  … (cut, 90 frames)", "  | ", "  + Exception Group " + HEADER, "  +-+---- 1 ----"),
    *("The above exception was the direct cause of the following exception:", "\x00", "\ud800", "\r", "   at A.B()"),
    *('  File "", line ٣, in ', "“", "\U0001f600", "x" * 500, "²: ٣", "a.<locals>.b: c", ".a: b", "A.: b", ": "),
]
TEXTS = st.lists(st.sampled_from(_PIECES), max_size=30).map("\n".join) | st.text(max_size=300)


@given(st.none() | TEXTS, st.text(max_size=20) | st.just("\ud800"), st.integers())
def test_any_text_has_a_fingerprint(text: str | None, cause: str, reason: int) -> None:
    found = fingerprint(text, cause=cause, reason=reason)

    assert len(found.value) == 16
    assert 0 < len(found.title) <= MAX_TITLE
    assert len(found.template) <= MAX_TEMPLATE
    assert f"{found.title}{found.template}".encode()
    assert "\n" not in f"{found.title}{found.template}"


@given(TEXTS)
def test_a_text_has_the_fingerprint_of_what_is_stored_of_it(text: str) -> None:
    assert known_by(visible(text)) == known_by(text)
    assert is_readable(visible(text)) == is_readable(text)


@pytest.mark.parametrize(
    "text",
    [
        recorded(*BASE),
        recorded("shop.Declined: no funds"),
        "Declined: no funds",
        "Declined",
        "shop.make.<locals>.Odd [51]: x",
        "A worker says\n" + part(*BASE),
        "Remote: it says\n   at Shop.Pay()\n" + part(*BASE),
    ],
)
def test_a_text_shaped_like_python_s_is_readable(text: str) -> None:
    assert is_readable(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "System.InvalidOperationException: boom",
        "System.Exception: no\n   at Shop.Pay(Int32 x) in C:\\a.cs:line 5",
        "TypeError: x is undefined\n    at pay (/srv/a.js:1:5)",
        "java.lang.IllegalStateException: no\n\tat com.shop.Pay.run(Pay.java:5)",
        "json: System.Text.Json.JsonException was thrown",
        "exceeded retry limit",
        "InboxDispatchWorker dead-lettered: attempts=11 > max=10",
        "PerspectiveWorker … — last error: System.InvalidOperationException: boom",
        HEADER,
    ],
)
def test_other_languages_and_prose_are_not_readable(text: str) -> None:
    assert not is_readable(text)
