"""Whatever is sent arrives, dies and comes back the same; whatever is raised is recorded and shown."""

import math
import os
import traceback
from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from queues import InvalidMessage, Subject, attribute, detail, send_many
from queues.conf import conf
from queues.words.errors import PayloadUnreadable
from queues.words.handlers import registry
from queues.words.messages import NewMessage
from queues.words.payloads import decode_payload
from tests.db import roundtrip
from tests.db.roundtrip import browser, downloaded, insert, mortal, recovers, run_until_dead

pytestmark = pytest.mark.django_db

few = settings(
    max_examples=int(os.environ.get("EXACTNESS_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class _Undo(Exception):
    """Rolls an example back."""


def alone(test):
    """Run an example with its own handlers, in a savepoint that is rolled back.

    A failure is told as text: reporters may not survive the exceptions that examples raise.
    """
    said = ""
    try:
        with registry.scratch(), transaction.atomic():
            try:
                test()
            except BaseException as exc:
                said = f"{type(exc).__name__} {repr(exc)[:500] if type(exc) is AssertionError else ''}\n"
                said += "".join(traceback.format_tb(exc.__traceback__))
            raise _Undo
    except _Undo:
        pass
    if said:
        raise AssertionError(said) from None


# --- JSON texts, as bytes that a program of any language may write

numbers = st.one_of(
    st.integers().map(str),
    st.integers(min_value=10**18, max_value=10**40).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1e400", "-1e400", "-0.0", "-0", "1E5", "1e-400", "1.10", "0.1000000000000000055", "9" * 5_000]),
)
characters = st.one_of(
    st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc", "Cs"]),
    st.sampled_from(["\\u0000", "\\ud800", "\\udfff", "\\ud83e\\udd8a", "\\n", '\\"', "\\\\", "\\/", "\\u0001", "🦊"]),
)
texts = st.lists(characters, max_size=8).map(lambda parts: f'"{"".join(parts)}"')
space = st.sampled_from(["", " ", "\n\t"])


def containers(inner):
    member = st.tuples(texts, space, inner).map(lambda part: f"{part[0]}{part[1]}:{part[1]}{part[2]}")
    return st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(member, max_size=4).map(lambda members: f"{{{', '.join(members)}}}"),
    )


json_texts = st.recursive(st.one_of(numbers, texts, st.sampled_from(["true", "false", "null"])), containers)


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same to the last sign: 1 is not 1.0, 0.0 is not -0.0; keys have no order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


@few
@given(text=json_texts)
@example(text='{"b": 1, "a": {"z": 0, "y": -0.0}}')
@example(text='{"a": 1, "a": 2}')
@example(text='{"a\\u0000": "\\ud800"}')
@example(text="9" * 5_000)
@example(text="[" * 100 + "1e400" + "]" * 100)
def test_any_json_text_reaches_the_handler_the_same_before_and_after_its_death(text):
    def walk():
        handler = mortal()
        raw = text.encode()
        send_many([NewMessage(type=roundtrip.TYPE, raw=raw)])
        sent = decode_payload(None, raw, limits=conf().payload_limits())

        letter = run_until_dead()
        assert same(handler.got[0], sent)
        assert same(decode_payload(None, downloaded(letter), limits=conf().payload_limits()), sent)
        if letter.envelope_raw is not None:
            assert bytes(letter.envelope_raw) == downloaded(letter) == raw
        assert browser().get(reverse("deadletters:letter", args=[letter.pk])).status_code == 200
        assert recovers(letter, handler)
        assert same(handler.got[1], sent)

    alone(walk)


@few
@given(raw=st.one_of(st.binary(max_size=200), json_texts.map(str.encode), json_texts.map(lambda t: t.encode("utf-16"))))
@example(raw=b"\xff")
@example(raw=b"NaN")
@example(raw=b'{"a":' * 101 + b"1" + b"}" * 101)
def test_any_bytes_reach_the_handler_or_die_as_unreadable_and_are_kept_shown_and_kept_through_a_recovery(raw):
    try:
        sent = decode_payload(None, raw, limits=conf().payload_limits())
    except PayloadUnreadable:
        sent = _UNREADABLE

    def walk():
        handler = mortal()
        insert("{}", raw=raw)
        letter = run_until_dead()
        assert (letter.cause == "unreadable") == (sent is _UNREADABLE)
        assert handler.got == [] or same(handler.got[0], sent)
        assert downloaded(letter) == raw
        page = browser().get(reverse("deadletters:letter", args=[letter.pk]))
        assert page.status_code == 200
        if sent is not _UNREADABLE:
            assert recovers(letter, handler)
            assert same(handler.got[1], sent)
        else:
            browser().post(reverse("deadletters:recover", args=[letter.pk]))
            again = run_until_dead()
            assert (again.pk, again.deaths, bytes(again.envelope_raw)) == (letter.pk, 2, raw)

    alone(walk)


_UNREADABLE = object()

any_text = st.text(st.characters(exclude_categories=[]))  # half characters too
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), any_text),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(any_text, inner, max_size=4)),
    max_leaves=10,
)


@few
@given(value=values)
def test_any_python_value_reaches_the_handler_the_same_before_and_after_its_death(value):
    def walk():
        handler = mortal()
        try:
            roundtrip.send(roundtrip.TYPE, value)
        except InvalidMessage:
            assume(False)

        letter = run_until_dead()
        assert recovers(letter, handler)
        assert len(handler.got) == 2
        assert all(got == value for got in handler.got)

    alone(walk)


# --- exceptions


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Lying(Exception):
    __class__ = property(lambda self: 1 / 0)
    __cause__ = property(lambda self: 1 / 0)
    args = property(lambda self: 1 / 0)


class NotText(Exception):
    def __str__(self):
        return 42


class Evil:
    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


def cyclic():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__context__ = other, one
    return one


odd = st.sampled_from([
    Unprintable, Lying, NotText, cyclic, lambda: ValueError("x" * 1_000_000), lambda: KeyError(Unprintable()),
    lambda: SystemExit(3), lambda: GeneratorExit(), lambda: StopIteration(7), lambda: RecursionError("deep"),
    lambda: MemoryError(), lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    lambda: OSError(2, "no", "\ud800"),
])  # fmt: skip
plain = st.builds(lambda text: lambda: ValueError(text), any_text)


def _group(makers):
    return lambda: ExceptionGroup("several", [_exception(make()) for make in makers])


def _exception(exc):
    return exc if isinstance(exc, Exception) else RuntimeError(type(exc).__name__)


def _chain(makers):
    def make():
        first = makers[0]()
        for maker in makers[1:]:
            BaseException.__dict__["__context__"].__set__(first, maker())
        return first

    return make


makers = st.recursive(
    st.one_of(odd, plain),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(_group), st.lists(inner, min_size=2, max_size=3).map(_chain)
    ),
    max_leaves=6,
)
anything = st.one_of(
    any_text,
    st.floats(),
    st.integers(),
    st.binary(),
    st.just(Evil),
    st.dictionaries(any_text, st.floats(), max_size=2),
)


@few
@given(make=makers, kind=anything, identity=anything, extra=st.dictionaries(st.text(max_size=20), anything, max_size=3))
def test_any_exception_is_recorded_and_its_letter_is_shown_and_recovered(make, kind, identity, extra):
    def walk():
        handler = mortal(lambda: detail(attribute(make(), Subject(kind, identity)), extra), max_attempts=1)
        roundtrip.send(roundtrip.TYPE, {"order_id": "42"})

        letter = run_until_dead()
        assert letter.error_text
        assert letter.error_line
        assert len(letter.error_text) < 50_000
        for address in ("letter", "export_letter"):
            assert browser().get(reverse(f"deadletters:{address}", args=[letter.pk])).status_code == 200
        assert recovers(letter, handler)

    alone(walk)
