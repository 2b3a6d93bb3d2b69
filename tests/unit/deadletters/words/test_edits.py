"""Payloads as people edit them: masks that stay in place, digits and orders that stay as they are."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.edits import (
    MAX_COMPARED_LINES,
    compact,
    difference,
    laid_out,
    masked,
    masked_again,
    merged,
    parse,
)
from deadletters.words.errors import BadChange
from queues.words.redaction import MASK

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "password", "api_key", "note"]), inner, max_size=4)
    ),
    max_leaves=20,
)


def draft(text):
    shown, secrets = masked(parse(text))
    return laid_out(shown), secrets


def saved(text, secrets):
    return compact(merged(parse(text), secrets))


@given(JSON)
def test_a_draft_that_is_left_as_it_was_is_what_it_was(value):
    text = json.dumps(value, ensure_ascii=False)
    shown, secrets = draft(text)

    assert json.loads(saved(shown, secrets)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"z":1,"a":2,"m":3}',
        '{"a":1,"a":2}',
        '{"n":[1.10,1e400,-0.0,123456789012345678901234567890]}',
        '{"a":"\\ud800","b":"\\u0000"}',
        '[[],{},"",null,true]',
        '"text"',
    ],
)
def test_orders_digits_and_doubled_keys_are_kept(text):
    shown, secrets = draft(text)

    assert not secrets
    assert saved(shown, secrets) == text


def test_a_secret_is_never_shown_and_survives_an_edit_beside_it():
    shown, secrets = draft('{"user":"ann","password":"hunter2!","url":"https://me:s3cretly@bank/x","pin":[1,2]}')

    assert "hunter2!" not in shown
    assert "s3cretly" not in shown
    assert json.loads(saved(shown.replace("ann", "bob"), secrets)) == {
        "user": "bob",
        "password": "hunter2!",
        "url": "https://me:s3cretly@bank/x",
        "pin": [1, 2],
    }


def test_a_secret_goes_with_its_number_when_a_list_is_reordered():
    shown, secrets = draft('{"cards":[{"of":"ann","pan":"1111"},{"of":"bob","pan":"2222"}]}')
    tree = json.loads(shown)
    tree["cards"].reverse()

    assert json.loads(saved(json.dumps(tree), secrets))["cards"] == [
        {"of": "bob", "pan": "2222"},
        {"of": "ann", "pan": "1111"},
    ]


def test_a_secret_that_is_typed_anew_replaces_the_old_one():
    shown, secrets = draft('{"password":"old one"}')

    assert saved(shown.replace(f"{MASK}#1", "new one"), secrets) == '{"password":"new one"}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f'{{"note":"{MASK}#1"}}', "where its value would be shown"),
        (f'{{"passwords_of":{{"a":"{MASK}#1"}}}}', "where its value would be shown"),
        (f'{{"password":"{MASK}"}}', "hides nothing"),
        (f'{{"password":"{MASK}#7"}}', "hides nothing"),
        (f'{{"password":"x{MASK}#1"}}', "write the text in full"),
        (f'{{"url":"https://evil:{MASK}#2@other/"}}', "write the text in full"),
    ],
)
def test_a_mask_cannot_be_used_to_show_or_to_bend_what_it_hides(text, problem):
    _, secrets = draft('{"password":"hunter2!","url":"https://me:s3cretly@bank/x"}')

    with pytest.raises(BadChange, match=problem) as raised:
        saved(text, secrets)
    assert "hunter2!" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1,\n "b" 2}', "line 2, column 6"),
        ('{"a": NaN}', "NaN is no JSON value"),
        ("", "line 1, column 1"),
        ("[" * 200 + "]" * 200, "deeper than 150 levels"),
        ("\ufeff{}", "byte order mark"),
        ('{"a": "x\ny"}', "line 1"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text, problem):
    with pytest.raises(BadChange, match=problem):
        parse(text)


def test_what_is_typed_is_masked_in_a_preview():
    typed = parse(f'{{"password":"brand new","token":"{MASK}#1","note":"Bearer abcdefgh12345"}}')

    shown = laid_out(masked_again(typed))
    assert "brand new" not in shown
    assert "abcdefgh12345" not in shown
    assert f'"{MASK}#1"' in shown
    assert f'"{MASK} (new)"' in shown


def test_a_difference_is_told_line_by_line():
    lines = difference(laid_out(parse('{"a":1,"b":2}')), laid_out(parse('{"a":1,"b":3}')))

    assert [(line.kind, line.text.strip()) for line in lines if line.kind in ("added", "removed")] == [
        ("removed", '"b": 2'),
        ("added", '"b": 3'),
    ]
    assert difference("same", "same") == []


def test_what_is_too_long_is_not_compared_and_says_so():
    (line,) = difference("x\n" * (MAX_COMPARED_LINES + 1), "y")

    assert "not compared" in line.text
