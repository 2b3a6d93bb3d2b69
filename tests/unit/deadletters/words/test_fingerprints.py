"""Which faults are one fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.fingerprints import (
    MAX_FRAMES,
    MAX_TITLE,
    VERSION,
    Fingerprint,
    cause_fingerprint,
    fingerprint,
)
from queues.words.outcomes import Terminal
from tests.errortexts import BASE, ENGINE, HANDLER, HEADER, LIBRARY, STANDARD, known_by, part, raised, recorded, value

SHOP = """
class Declined(Exception):
    sqlstate = None

def check(order):
    [load(one) for one in [order]]

def load(order):
    try:
        {}[order]
    except KeyError as exc:
        raise Declined(f"no order {order} in {names}") from exc

check(order)
"""
DIFFERENT_INSTALLS = (
    "/opt/app-1/shop/handlers.py",
    "/srv/x/releases/20260131/shop/handlers.py",
    "/home/ann/src/shop/handlers.py",
    "C:\\apps\\shop\\handlers.py",
)


@given(
    order=st.integers() | st.uuids() | st.text(max_size=300) | st.datetimes(),
    names=st.sets(st.text(max_size=20), max_size=8),
    blank_lines=st.integers(0, 30),
    file=st.sampled_from(DIFFERENT_INSTALLS),
)
def test_one_fault_is_one_whatever_its_data_its_lines_and_its_install_path(
    order: object, names: set[str], blank_lines: int, file: str
) -> None:
    text = raised(SHOP, file, blank_lines=blank_lines, order=order, names=names)

    assert value(text) == value(raised(SHOP, "/app/shop/handlers.py", order=5, names=set()))


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_recursion_counts_once_however_deep_it_went(one: int, other: int) -> None:
    source = "def down(depth):\n    return down(depth - 1) if depth else [][0]\ndown(depth)"

    assert value(raised(source, "/a/shop/tree.py", depth=one)) == value(raised(source, "/a/shop/tree.py", depth=other))


def test_a_recursion_without_end_is_the_same_as_a_short_one_of_its_type() -> None:
    endless = recorded("RecursionError: too deep", *[f"/a/shop/tree.py:{name}" for name in "ab" * 500])
    cut = endless.replace("    call(7)", "  … (cut, 1,000 frames)\n  [Previous line repeated 900 more times]")

    assert value(cut) == value(recorded("RecursionError: too deep", "/a/shop/tree.py:a", "/a/shop/tree.py:b"))


@pytest.mark.parametrize(
    "other",
    [
        recorded(*BASE, first_line=20),
        recorded("ValueError: quite another message", *BASE[1:]),
        recorded("ValueError", *BASE[1:]),
        recorded(*BASE, LIBRARY, STANDARD, "<frozen importlib._bootstrap>:_load", "<string>:<module>"),
        recorded(*BASE[:2], STANDARD, *BASE[2:]),
        recorded(*BASE[:3], "/opt/app-1/shop/handlers.py:<listcomp>", *BASE[3:]),
        recorded(*BASE, "/opt/app-1/shop/orders.py:<genexpr>"),
        recorded(*BASE).replace("/opt/app-1/", "/var/lib/b/current/"),
        recorded(*BASE).replace("/srv/v/lib/python3.11/site-packages/", "/home/me/checkout/"),
        recorded(*BASE).replace("\n", "\r\n"),
        recorded(*BASE).replace("    ~~~~^^\n", ""),
        part(*BASE),
        "\n" + part(*BASE) + "\n",
    ],
)
def test_what_tells_no_fault_from_another_does_not_count(other: str) -> None:
    assert value(other) == value(recorded(*BASE))


OTHERS = [
    recorded("KeyError: no", *BASE[1:]),
    recorded("shop.errors.ValueError: no", *BASE[1:]),
    recorded("ValueError [23505]: no", *BASE[1:]),
    recorded("ValueError [23503]: no", *BASE[1:]),
    recorded(*BASE[:3]),
    recorded(*BASE[:3], "/opt/app-1/shop/orders.py:save"),
    recorded(*BASE[:3], "/opt/app-1/shop/invoices.py:load"),
    recorded(*BASE[:3], "/opt/app-1/depot/orders.py:load"),
    recorded(*BASE, behind=(part("KeyError: 'a'"),)),
    recorded(*BASE, behind=(part("OSError [ENOSPC]: full"),)),
    recorded(*BASE, behind=(part("OSError [EIO]: broken"),)),
    recorded(*BASE, behind=(part("KeyError: 'a'", "/opt/app-1/shop/orders.py:find"),)),
]


@pytest.mark.parametrize("other", OTHERS)
def test_another_type_code_or_place_is_another_fault(other: str) -> None:
    rest = [recorded(*BASE), *(text for text in OTHERS if text != other)]

    assert value(other) not in set(map(value, rest))


def test_the_texts_of_exceptions_behind_do_not_count_but_their_places_do() -> None:
    def wrapped(text: str, function: str) -> str:
        return recorded(*BASE, behind=(part(f"KeyError: {text}", f"/opt/app-1/shop/orders.py:{function}"),))

    assert value(wrapped("'a'", "find")) == value(wrapped("'b'", "find"))
    assert value(wrapped("'a'", "find")) != value(wrapped("'a'", "guess"))


def test_the_order_and_number_of_like_exceptions_of_a_group_do_not_count() -> None:
    first, second = part("KeyError: 'a'", "/a/shop/orders.py:find"), part("OSError: no", "/a/shop/files.py:read")

    def group(*leaves: str) -> str:
        return recorded(f"ExceptionGroup: several ({len(leaves)} sub-exceptions)", HANDLER, behind=leaves)

    assert value(group(first, second)) == value(group(second, first, second))
    assert value(group(first, second)) != value(group(first))


def test_a_terminal_is_the_fault_that_it_carries() -> None:
    source = "class Declined(Exception): pass\ndef charge():\n    raise Terminal(Declined(code))\ncharge()"

    declined = known_by(raised(source, "/a/shop/handlers.py", Terminal=Terminal, code=51))

    assert declined.title == "Declined"
    assert declined.value == value(raised(source, "/b/shop/handlers.py", Terminal=Terminal, code=7))


def test_a_service_installed_like_a_library_is_known_by_its_handler() -> None:
    def installed(text: str) -> str:
        return text.replace("/opt/app-1/", "/srv/v/lib/python3.11/site-packages/")

    failed = recorded(*BASE, LIBRARY)

    assert value(installed(failed)) == value(failed)
    assert value(installed(failed)) != value(installed(recorded(*BASE[:3], LIBRARY)))


def test_a_library_whose_file_is_called_handlers_does_not_become_our_own() -> None:
    botocore = "/srv/v/lib/python3.11/site-packages/botocore/handlers.py:parse"

    assert value(recorded(*BASE, botocore)) == value(recorded(*BASE))


def test_line_ends_of_another_system_do_not_count() -> None:
    text = recorded("KeyError", HANDLER, behind=(part("OSError", HANDLER),))

    assert known_by(text.replace("\n", "\r\n")) == known_by(text)


def test_a_class_within_a_function_is_the_same_without_what_says_so() -> None:
    assert value(recorded("shop.make.<locals>.Odd: x", HANDLER)) == value(recorded("shop.make.Odd: x", HANDLER))
    assert value(recorded(*BASE[:3], "/a/x.py:make.<locals>.run")) == value(recorded(*BASE[:3], "/a/x.py:run"))


def test_a_lambda_is_known_by_its_file() -> None:
    one, other = "/a/shop/rules.py:<lambda>", "/a/depot/rules.py:<lambda>"

    assert value(recorded("ValueError: a", one)) == value(recorded("ValueError: b", one))
    assert value(recorded("ValueError: a", one)) != value(recorded("ValueError: a", other))


def test_frames_nearest_to_the_raise_count() -> None:
    frames = [f"/a/shop/deep.py:step_{number}" for number in range(MAX_FRAMES + 1)]

    assert value(recorded("ValueError: no", *frames)) == value(recorded("ValueError: no", *frames[1:]))
    assert value(recorded("ValueError: no", *frames)) != value(recorded("ValueError: no", *frames[:-1]))


@pytest.mark.parametrize("frames", [(), (LIBRARY,), (ENGINE, STANDARD)])
def test_without_frames_of_our_own_the_template_of_the_message_counts(frames: tuple[str, ...]) -> None:
    def failed(text: str) -> str:
        return value(recorded(f"httpx.HTTPStatusError [HTTP 503]: {text}", *frames))

    assert failed("https://x.org/1 is down for order 5") == failed("https://y.org/2 is down for order 1,234.5")
    assert failed("down") != failed("up")


def test_a_message_of_several_lines_counts_by_its_first() -> None:
    def failed(text: str) -> Fingerprint:
        return known_by(recorded(f"django.db.utils.IntegrityError [23505]: {text}", LIBRARY))

    assert failed("twice\nAnna: too").value == failed("twice\nBob").value
    assert failed("\n\nno \ntwice").template == "no"


@pytest.mark.parametrize(
    ("text", "title", "template"),
    [
        (recorded(*BASE), "ValueError", "no"),
        (
            recorded("django.db.utils.IntegrityError [23505]: order 5", HANDLER),
            "IntegrityError [23505]",
            "order <number>",
        ),
        (recorded("shop.tests.make.<locals>.Odd: x", HANDLER), "Odd", "x"),
        (recorded("KeyError", HANDLER), "KeyError", ""),
        ("exceeded retry limit", "exceeded retry limit", "exceeded retry limit"),
        ("no route to 10.0.0.1: gone", "no route to <address>: gone", "no route to <address>: gone"),
        ("Task 5 failed\n" + part(*BASE), "ValueError", "no"),
        (recorded(f"{'Odd' * 50} [{'5' * 60}]: x", HANDLER), ("Odd" * 50)[:MAX_TITLE], "x"),
        (recorded(f"{'Odd' * 30} [{'5' * 60}]: x", HANDLER), f"{'Odd' * 30} [{'5' * 60}]"[:MAX_TITLE], "x"),
        ("System.TimeoutException: after 5 s\n   at Shop.Pay()", "TimeoutException", "after <number> s"),
        (HEADER, "Budget spent, max attempts exceeded", ""),
    ],
)
def test_a_fault_is_called_by_its_type_and_code(text: str, title: str, template: str) -> None:
    found = known_by(text)

    assert (found.title, found.template, found.version) == (title, template, VERSION)


def test_a_death_without_a_text_is_known_by_its_cause_and_reason() -> None:
    lost = known_by(None, cause="worker_lost", reason=6)

    assert lost.value == cause_fingerprint("worker_lost", 6)
    assert (lost.title, lost.template) == ("Worker lost, lease expired", "no reason recorded")
    assert known_by(" \n", cause="worker_lost", reason=6).template == "an empty reason"
    assert known_by("", cause="imported", reason=-3).title == "Imported, reason -3"


def test_fingerprints_are_pinned() -> None:
    """Another value here means another VERSION: the groups of every database would fall apart."""
    assert cause_fingerprint("worker_lost", 6) == "88f267302c1db4b5"
    assert value(recorded(*BASE, LIBRARY)) == "c7e36fdc683675f9"
    assert (
        value(recorded(*BASE, behind=(part("psycopg.errors.UniqueViolation [23505]: x", LIBRARY),)))
        == "82cd8ebb28973891"
    )
    assert value("shop.Declined: no funds on card 4242 at 2026-01-31T10:00:00Z") == "bdaf5228e3b23607"
    assert value("exceeded retry limit") == "14b7507d2ca0a325"


def test_a_fault_says_where_in_our_own_code_it_was_raised() -> None:
    known = fingerprint(
        "shop.Declined: no\nTraceback (most recent call last):\n"
        '  File "/srv/app/shop/orders.py", line 3, in place\n    pay()\n'
        '  File "/srv/app/shop/bank.py", line 9, in pay\n    call()\n'
        '  File "/usr/lib/python3.11/http/client.py", line 1, in call\nshop.Declined: no',
        cause="terminal",
        reason=99,
    )

    assert known.place == "shop/bank.py:pay"
    assert fingerprint("Boom: x", cause="terminal", reason=99).place == ""
