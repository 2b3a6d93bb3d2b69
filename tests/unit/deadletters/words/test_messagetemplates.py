"""What is data in a message and what is the message."""

import random
import uuid
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deadletters.words.messagetemplates import MAX_TEMPLATE, MAX_TEXT, template_of

Dice = random.Random


def _uuid(dice: Dice) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128)))


def _time(dice: Dice) -> str:
    day = f"{dice.randint(1970, 2040)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
    zone = dice.choice(["", "Z", "+00:00", "-0530", " UTC"])
    clock = f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"
    return dice.choice([day, f"{day}T{clock}{zone}", f"{day} {clock}.{dice.randint(0, 999999):06}{zone}"])


def _mail_time(dice: Dice) -> str:
    day = dice.choice(["Mon", "Tue", "Sun"])
    return f"{day}, {dice.randint(1, 28):02} {dice.choice(['Jan', 'May', 'September'])} 2026 10:00:00 GMT"


def _localised(dice: Dice) -> str:
    english = f"{dice.randint(0, 10**9) / 100:,.2f}"
    german = english.translate(str.maketrans(",.", ".,"))
    grouped = [english.replace(",", space) for space in (" ", "\u00a0", "\u202f", "’", "'", "")]
    arabic = english.translate(str.maketrans("0123456789,.", "٠١٢٣٤٥٦٧٨٩٬٫"))
    return dice.choice([english, german, arabic, f"{dice.randint(1, 99)},34,567.8", *grouped])


def _keys(dice: Dice) -> list[str]:
    return dice.sample(["id", "sku", "price", "tags", "note", "customer's"], dice.randint(1, 6))


def _set(dice: Dice) -> str:
    return "{" + ", ".join(map(repr, _keys(dice))) + "}"


def _path(dice: Dice) -> str:
    name = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz_0123456789", k=8))
    return dice.choice([f"/tmp/tmp{name}/in.csv", f"/var/folders/{name}/T/x", rf"C:\Temp\{name}\in.csv", f"~/{name}/y"])


DATA: dict[str, Callable[[Dice], str]] = {
    "uuid": _uuid,
    "uuid without hyphens": lambda dice: _uuid(dice).replace("-", ""),
    "integer": lambda dice: str(dice.randint(-5, 10 ** dice.randint(1, 30))),
    "decimal": lambda dice: f"{dice.random() * 10 ** dice.randint(-9, 9)}",
    "localised number": _localised,
    "number with a unit": lambda dice: f"{dice.randint(1, 9000)}{dice.choice(['ms', 's', 'KB', '%', 'min', ''])}",
    "short hexadecimal": lambda dice: f"{dice.getrandbits(32):08x}",
    "long hexadecimal": lambda dice: f"{dice.getrandbits(160):040X}",
    "address in memory": lambda dice: f"0x{dice.getrandbits(44):x}",
    "object": lambda dice: f"<Order object at 0x{dice.getrandbits(44):x}>",
    "model": lambda dice: f"<Order: of {dice.choice(['Ann', 'Bob & Co', 'ü'])}>",
    "time": _time,
    "time of mail": _mail_time,
    "duration": lambda dice: dice.choice(["", "1 day, ", "12 days, "]) + f"{dice.randint(0, 23)}:05:09",
    "e-mail": lambda dice: dice.choice(["ann@x.org", "bob.b+tag@mail.example.co.uk", "ü_1@host"]),
    "url": lambda dice: f"https://u:p@{dice.choice(['x.org', '[::1]:80'])}/a/{dice.random()}?q={dice.random()}#f",
    "ip 4": lambda dice: ".".join(str(dice.randint(0, 255)) for _ in range(4)) + dice.choice(["", ":80", "/24"]),
    "ip 6": lambda dice: dice.choice(["::1", "fe80::1%eth0", "2001:db8:0:0:1:0:0:1", "2001:db8::ff00:42:8329"]),
    "path": _path,
    "quoted": lambda dice: repr(dice.choice(["a", "two words", "it's", 'say "x"', "[", "a, b", "\n", "", "{x"])),
    "typographically quoted": lambda dice: dice.choice(["“a b”", "«1»", "„x“", "‘y’", "`z`"]),
    "set": _set,
    "list": lambda dice: str([[dice.random()] * dice.randint(0, 3), {"a": _keys(dice)}]),
    "mapping": lambda dice: str({key: dice.random() for key in _keys(dice)}),
    "tuple": lambda dice: str(tuple(dice.random() for _ in range(dice.randint(1, 4)))),
    "some ids": lambda dice: ", ".join(str(dice.randint(1, 999)) for _ in range(dice.randint(1, 5))),
    "ids of several kinds": lambda dice: ", ".join(dice.choices(["7", "a7f3", "ord-5", "1.5"], k=dice.randint(1, 5))),
    "quoted, with an apostrophe": lambda dice: dice.choice(["'it's fine'", "'no'", "'don't'"]),
    "opaque id": lambda dice: "ch_" + "".join(dice.choices("abcdefXYZ", k=8)) + str(dice.randint(1, 9)),
    "number of an order": lambda dice: f"ORD-{dice.randint(2000, 2030)}-{dice.randint(1, 99999):06}",
}


@pytest.mark.parametrize("kind", DATA)
def test_two_hundred_messages_that_differ_in_data_have_one_template(kind: str) -> None:
    dice = Dice(kind)

    found = {template_of(f"cannot charge {DATA[kind](dice)} for the order").identity for _ in range(200)}

    assert len(found) == 1
    (template,) = found
    assert template.startswith("cannot charge ")
    assert template.endswith(" for the order")


@pytest.mark.parametrize("kind", DATA)
def test_data_at_the_end_of_a_message_is_data(kind: str) -> None:
    dice = Dice(kind)

    found = {template_of(f"no such order: {DATA[kind](dice)}").identity for _ in range(200)}

    assert len(found) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no funds", "no such card"),
        ("order 5 is late", "order 5 is gone"),
        ("cannot open '/tmp/x'", "cannot close '/tmp/x'"),
        ("<Order object at 0x1> is odd", "<Invoice object at 0x1> is odd"),
        ("it can't be that it won't", "it can't be that it will"),
        ("the orders' total", "the orders' sum"),
        ("don't", "won't"),
        ("a list[ of", "a list[ or"),
        ("the 'orders are late", "the 'orders are gone"),
    ],
)
def test_other_words_are_another_template(one: str, other: str) -> None:
    assert template_of(one).identity != template_of(other).identity


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("order 0192f0c0-1111-7000-8000-00000000aaaa of 3 not found", "order <id> of <number> not found"),
        ("Key (id, sku)=(42, abc) already exists.", "Key (id, sku)=<value> already exists."),
        ("<Order object at 0x7f3a5c> at 2026-01-31T12:00:00Z", "<Order> at <time>"),
        ("GET https://x.org/a?b=1: 503 for ann@x.org", "GET <url>: <number> for <email>"),
        ("no /srv/a/b.csv, {'a': [1]} or b'x' on 10.0.0.1:80", "no <path>, <items> or <value> on <address>"),
        ("from 1.5e-7 to −3.000,5 in 20ms", "from <number> to <number> in <number>"),
        ("orders 1, 2, 3 are gone", "orders <number> are gone"),
        ("it can't be 5", "it can't be <number>"),
        ("  two\t words ", "two words"),
        ("", ""),
    ],
)
def test_a_template_shows_what_kind_of_data_stood_where(message: str, shown: str) -> None:
    assert template_of(message).shown == shown


def test_a_secret_is_not_shown() -> None:
    assert "hunter" not in template_of("login with password=hunter failed").shown


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ("no such order… (cut, 9,000 characters)", "no such order"),
        ("missing [1, {2, 3… (cut, 9,000 characters)", "missing []"),
        ("missing 'abc… (cut, 9,000 characters)", "missing 'x'"),
    ],
)
def test_what_says_that_a_message_was_cut_is_no_part_of_it(cut: str, whole: str) -> None:
    assert template_of(cut) == template_of(whole)


@given(st.integers(MAX_TEXT, 10**7), st.integers(MAX_TEXT, 10**7))
def test_how_much_of_a_value_was_cut_away_is_data(one: int, other: int) -> None:
    def recorded(length: int) -> str:
        return f"bad order {{'note': '{'x' * 50}… (cut, {length:,} characters)"

    assert template_of(recorded(one)) == template_of(recorded(other))


def test_a_huge_quoted_value_is_data_although_its_end_is_not_read() -> None:
    whole = template_of("bad number 'x'")

    assert template_of(f"bad number '{'x' * 2 * MAX_TEXT}'") == whole
    assert template_of(f"bad number '{'x' * 2 * MAX_TEXT}") == whole
    assert template_of(f'bad number \'{{"a": "{"x" * 2 * MAX_TEXT}').identity == whole.identity


def _pieces() -> Iterator[str]:
    yield from ("'", '"', "“", "[", "]", "{", "}", "(", ")", "<", ">", "=(", " ", "\\", "://", "@", "/", ".", ":", "-")
    yield from (
        "0x1",
        "1",
        "٣",
        "²",
        "a",
        "é",
        "\U0001f600",
        "\ud800",
        "\x00",
        "\n",
        "\r\n",
        "… (cut, ",
        "may ",
        "<id>",
    )


@given(st.lists(st.sampled_from(list(_pieces())), max_size=60).map("".join) | st.text(max_size=200))
@example("<" * 5 + "0x1" * 5)
def test_any_message_has_a_bounded_template(message: str) -> None:
    template = template_of(message)

    assert len(template.shown) <= MAX_TEMPLATE
    assert len(template.identity) <= MAX_TEMPLATE
    assert "\n" not in template.shown + template.identity
