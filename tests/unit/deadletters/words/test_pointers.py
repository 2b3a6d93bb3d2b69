"""Places in JSON, and bytes for people."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errors import BadChange
from deadletters.words.hexdumps import hexdump
from deadletters.words.pointers import masked_at, pointer_to

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.lists(NAMES, max_size=5), st.text(st.characters(exclude_categories=["Cs"])))
def test_what_stands_under_any_keys_is_found_by_its_pointer(names, secret):
    value, place = {"password": secret}, ""
    for name in reversed(names):
        value = {name: value}
    for name in [*names, "password"]:
        place = pointer_to(place, name)

    assert masked_at(json.dumps(value), place) == secret


@given(st.integers() | st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_digits(number):
    assert masked_at(f'{{"pin": {number}}}', "/pin") == str(number)


def test_what_is_below_a_secret_key_is_masked_too():
    assert masked_at('{"credentials": {"user": ["lea"]}}', "/credentials/user/0") == "lea"
    assert masked_at('{"credentials": {"user": ["lea", 1.50]}}', "/credentials") == '{"user":["lea",1.50]}'


@pytest.mark.parametrize("pointer", ["/a", "a", "/password/x", "/list/2", "/list/01x", "/list/²", "/"])
def test_other_places_are_refused(pointer):
    with pytest.raises(BadChange):
        masked_at('{"password": "x", "list": [1, 2], "a": "open"}', pointer)


@given(st.binary(max_size=100))
def test_a_dump_holds_every_byte(data):
    lines = hexdump(data).splitlines()

    assert bytes.fromhex("".join(line[10:57] for line in lines)) == data
    assert [int(line[:8], 16) for line in lines] == list(range(0, len(data), 16))
    assert all(line.isascii() and line.isprintable() for line in lines)
