from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.words.redaction import MASK, MAX_DEPTH, is_secret, mask, mask_text

SECRET = "hunter2-s3cr3t"


@pytest.mark.parametrize(
    "key",
    ["password", "Password", "DB_PASSWORD", "user-password", "userPassword", "access_token", "accessToken", "X-Api-Key",
     "apiKey", "Authorization", "Proxy-Authorization", "Set-Cookie", "cvv", "client_secret", "privateKey", "IBAN"],
)  # fmt: skip
def test_a_key_that_names_or_ends_in_a_secret_is_secret(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key", ["passwordless", "tokens_used", "company", "span", "author", "cookies_enabled", "id", ""]
)
def test_a_key_that_only_looks_alike_is_no_secret(key: str) -> None:
    assert not is_secret(key)


def test_mask_replaces_the_whole_value_of_a_secret_key_whatever_it_is() -> None:
    assert mask({"card_number": 4111, "token": {"a": [1]}, "cvv": None}) == {
        "card_number": MASK,
        "token": MASK,
        "cvv": MASK,
    }


def test_mask_leaves_everything_else_as_it_is() -> None:
    value = {"order": 9007199254740993, "lines": [{"sku": "a", "price": 1.5, "gift": True, "note": None}]}

    assert mask(value) == value


@given(st.lists(st.sampled_from(["list", "map"]), max_size=90))
@settings(max_examples=30)
def test_mask_reaches_a_secret_at_any_depth(shape: list[str]) -> None:
    value: Any = {"api_key": SECRET, "note": f"password={SECRET}"}
    for kind in shape:
        value = [value] if kind == "list" else {"inner": value}

    assert SECRET not in str(mask(value))


@pytest.mark.parametrize("deeper", [lambda inner: [inner], lambda inner: {"in": inner}])
def test_mask_hides_what_is_too_deep_to_look_at(deeper: Callable[[Any], Any]) -> None:
    value: Any = SECRET
    for _ in range(MAX_DEPTH + 10):
        value = deeper(value)

    assert SECRET not in str(mask(value))


def test_mask_takes_keys_of_its_caller() -> None:
    assert mask({"shoe_size": 43, "password": "x"}, keys={"shoe_size"}) == {"shoe_size": MASK, "password": "x"}


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f"postgres://shop:{SECRET}@db.example/shop",
        f"redis://:{SECRET}@cache:6379/0",
        f"amqp://shop:pass@{SECRET}@broker//",
        f"https://api.example/pay?token={SECRET}&order=42",
        f"password={SECRET}",
        f"DB_PASSWORD = {SECRET}",
        f"userPassword: {SECRET}",
        f'{{"password": "{SECRET}", "order": 42}}',
        f'{{"password": "a \\" {SECRET}", "order": 42}}',
        f"{{'api_key': '{SECRET}'}}",
        f'{{\\"api_key\\": \\"{SECRET}\\"}}',
        f'{{"password": "{SECRET}… (cut, 9,000 characters)',
        f"Cookie: theme=dark; session={SECRET}",
        f"Set-Cookie: {SECRET}; Path=/",
        f"got eyJhbGciOiJIUzI1NiJ9.{SECRET}eyJzdWIiOiI0MiJ9.abc back",
    ],
)
def test_mask_text_hides_a_secret(text: str) -> None:
    masked = mask_text(text)

    assert SECRET not in masked
    assert MASK in masked


@pytest.mark.parametrize(
    "text",
    [
        "card declined: do not honour",
        "token bucket is full",
        "https://api.example:8443/orders/42?page=2",
        "bob@example.com asked",
        '{"order": 42, "author": "bob"}',
        "KeyError: 'company'",
    ],
)
def test_mask_text_leaves_other_text_as_it_is(text: str) -> None:
    assert mask_text(text) == text


def test_mask_text_keeps_what_stands_around_a_secret() -> None:
    masked = mask_text(f'{{"password": "{SECRET}", "order": 42}} at https://shop:{SECRET}@db/x?y=1')

    assert masked == f'{{"password": {MASK}, "order": 42}} at https://shop:{MASK}@db/x?y=1'


@pytest.mark.parametrize(
    "part", ["a", "a_", "password ", 'password="', "://", "://a:", "token  ", "eyJaaaaaaaa.", "\\"]
)
def test_mask_text_gets_through_long_text_made_to_be_slow(part: str) -> None:
    """A quadratic pattern takes minutes here."""
    assert len(mask_text("token" + part * (100_000 // len(part)))) > 0
