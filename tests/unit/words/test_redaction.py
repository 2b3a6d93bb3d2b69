from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queues.words.redaction import MASK, MAX_DEPTH, is_secret, mask, mask_text

SECRET = "hunter2-s3cr3t"


@pytest.mark.parametrize(
    "key",
    ["password", "Password", "DB_PASSWORD", "user-password", "userPassword", "access_token", "accessToken", "X-Api-Key",
     "apiKey", "Authorization", "Proxy-Authorization", "Set-Cookie", "cvv", "client_secret", "privateKey", "IBAN",
     "DBPassword", "JWTToken", "stripeAPIKey", "DBPASSWORD", "adminpassword", "PHPSESSIONID", "new_password1", "cvv2",
     "user[password]", "user.password", "user password", "password?", "passwords", "accessTokens", "cookies",
     "password_confirmation", "csrfmiddlewaretoken", "X-CSRFToken", "jwt", "pin", "auth"],
)  # fmt: skip
def test_a_key_that_names_or_ends_in_a_secret_is_secret(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    ["passwordless", "tokens_used", "max_tokens", "company", "span", "author", "cookies_enabled", "id", "", "_", "42",
     "pinned", "shipping", "spans", "laptop", "secretary", "password_changed_at"],
)  # fmt: skip
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
        f'Cookie: theme="dark"; session="{SECRET}"',
        f"Authorization: Digest username=shop, response={SECRET}",
        f'authorization: Token token="{SECRET}", nonce="x"',
        f"<QueryDict: {{'username': ['bob'], 'password': ['{SECRET}']}}>",
        f'"tokens": 2, "access_tokens": ["a", "{SECRET}"]',
        f'"credentials": {{"user": "shop", "key": "{SECRET}"}}',
        f'"credentials": {{"user": {{"id": 7}}, "key": "{SECRET}"}}',
        f"password=('a]', \"{SECRET}\")",
        f"password=[['{SECRET}']",
        f"password=['{SECRET}",
        f'{{"password"=>"{SECRET}", "order"=>42}}',
        f"password := {SECRET}",
        f"user[password]={SECRET}&order=42",
        f'headers["X-Api-Key"] = "{SECRET}"',
        f"DBPassword={SECRET}",
        f"DB_PASSWORD1={SECRET}",
        f"PGPASSWORD={SECRET}",
        f'password="two parts"{SECRET}',
        f'bearer password="{SECRET}"',
        f'<wsse:Password Type="PasswordText">{SECRET}</wsse:Password>',
        f"<api_key>{SECRET}</api_key>",
        f"https://{SECRET}{SECRET}@github.example/shop.git",
        f"-----BEGIN RSA PRIVATE KEY-----\nMII\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\\n{SECRET}… (cut, 9,000 characters)",
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
        "auth: connection refused",
        "the pin: pulled",
        "<Order object at 0x7f3a> has <token/>",
        "postgres://shop@db.example/shop",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        '{"shipping": {"cost": 7}, "spans": [1]}',
    ],
)
def test_mask_text_leaves_other_text_as_it_is(text: str) -> None:
    assert mask_text(text) == text


def test_mask_text_keeps_what_stands_around_a_secret() -> None:
    masked = mask_text(f'{{"password": "{SECRET}", "order": 42}} at https://shop:{SECRET}@db/x?y=1')

    assert masked == f'{{"password": {MASK}, "order": 42}} at https://shop:{MASK}@db/x?y=1'


def test_mask_text_keeps_the_end_of_a_call() -> None:
    assert mask_text(f"charge(token='{SECRET}') failed") == f"charge(token={MASK}) failed"


SLOW = ["a", "a_", "password ", 'password="', "://", "://a:", "token  ", "eyJaaaaaaaa.", "\\", "password=[", "['", "<a",
        "<a:", "<token ", "<token>a", 'cookie:="', "-----BEGIN PRIVATE KEY-----", "token::", 'password=\\"', "secret]",
        "authorization: basic =", "bearer  ", "\n", "password={'a':", "••••••", "aA"]  # fmt: skip


@pytest.mark.parametrize("part", SLOW)
@pytest.mark.parametrize("start", ["token", "password=["])
def test_mask_text_gets_through_long_text_made_to_be_slow(start: str, part: str) -> None:
    """A quadratic pattern takes minutes here."""
    assert len(mask_text(start + part * (64_000 // len(part)))) > 0


# --- whatever the text


PIECES = st.sampled_from(
    ["password", "apiKey", "Cookie", "authorization", "pin", "bearer ", "basic ", "token", "order", "://", "@", "42",
     "=", ":", "=>", ": ", " ", "\n", '"', "'", "\\", "[", "]", "{", "}", "(", ")", "<", ">", "</", ",", ";", "&", "/",
     "eyJhbGciOiJI.eyJzdWIiOi.x", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", MASK, SECRET, "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join))
@example('://password://"@')
@settings(max_examples=150)
def test_masking_a_masked_text_changes_nothing(text: str) -> None:
    masked = mask_text(text)

    assert mask_text(masked) == masked


KEYS = st.sampled_from(["password", "X-Api-Key", "accessToken", "cvv", "order", "note", "lines"])
TEXTS = st.sampled_from(
    [
        f"password={SECRET}",
        f"https://shop:{SECRET}@db/",
        f"Bearer {SECRET}",
        "an ordinary note",
        f'{{"pwd":"{SECRET}"}}',
    ]
)
TREES = st.recursive(
    st.one_of(st.none(), st.integers(), TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def hidden(value: Any, key: str = "") -> Any:
    """Put a secret wherever a secret key stands, whatever stood there."""
    if is_secret(key):
        return {"inner": [SECRET, value]}
    if isinstance(value, dict):
        return {name: hidden(inner, name) for name, inner in value.items()}
    return [hidden(inner) for inner in value] if isinstance(value, list) else value


@given(TREES)
@settings(max_examples=100)
def test_no_secret_survives_anywhere_and_masking_twice_changes_nothing(tree: Any) -> None:
    masked = mask(hidden(tree))

    assert SECRET not in str(masked)
    assert mask(masked) == masked


@given(TREES)
def test_mask_keeps_the_shape(tree: Any) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: None if is_secret(name) else shape(inner) for name, inner in value.items()}
        return [shape(inner) for inner in value] if isinstance(value, list) else None

    assert shape(mask(tree)) == shape(tree)


@pytest.mark.parametrize("key", ["Paſſword", "toKen", "PİN_token", "APİ-TOKEN"])
def test_a_key_in_letters_that_only_compare_alike_is_masked(key: str) -> None:
    assert SECRET not in mask_text(f"{key}={SECRET}")
