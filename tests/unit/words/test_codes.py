import urllib.error
from email.message import Message
from enum import StrEnum
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import django.db
import psycopg
import pytest
from django.core.exceptions import ValidationError

from queues.words.codes import error_code
from queues.words.failures import attribution
from queues.words.outcomes import Terminal
from queues.words.traces import name_and_text


class Declined(Exception):
    """With whatever attributes it is given."""

    def __init__(self, text: str = "", **attributes: object) -> None:
        super().__init__(text)
        vars(self).update(attributes)


class Codes(StrEnum):
    EXPIRED = "expired_card"

    def __str__(self) -> str:
        return "what it says in a list"


def answered(status: object) -> SimpleNamespace:
    return SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"sqlstate": "23505"}, "23505"),
        ({"pgcode": "40P01"}, "40P01"),
        ({"sqlstate": "2350"}, None),
        ({"sqlstate": "23505\n"}, None),
        ({"sqlstate": 23505}, None),
        ({"response": answered(503)}, "HTTP 503"),
        ({"response": answered(HTTPStatus.NOT_FOUND)}, "HTTP 404"),
        ({"response": answered(200)}, None),
        ({"response": SimpleNamespace(status=502)}, "HTTP 502"),
        ({"response": {"status_code": 503}}, None),
        ({"code": "card_declined"}, "card_declined"),
        ({"code": "E1001"}, "E1001"),
        ({"code": "net.timeout-2"}, "net.timeout-2"),
        ({"code": Codes.EXPIRED}, "expired_card"),
        ({"code": "a" * 40}, "a" * 40),
        ({"code": "a" * 41}, None),
        ({"code": "two words"}, None),
        ({"code": "[x]"}, None),
        ({"code": "x]: y"}, None),
        ({"code": "x\n"}, None),
        ({"code": "7"}, None),
        ({"code": 7}, None),
        ({"code": "é"}, None),
        ({"code": ""}, None),
        ({"errno": 111}, None),
        ({"sqlstate": "23505", "response": answered(503), "code": "x"}, "23505"),
        ({"response": answered(503), "code": "x"}, "HTTP 503"),
        ({"sqlstate": None, "response": None, "code": "x"}, "x"),
    ],
)
def test_the_code_is_the_sqlstate_the_status_or_a_short_name(attributes: dict[str, object], code: str | None) -> None:
    assert error_code(Declined(**attributes)) == code


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (Declined("do not honour", code="card_declined"), "Declined [card_declined]: do not honour"),
        (Declined(code="card_declined"), "Declined [card_declined]"),
        (Declined("do not honour"), "Declined: do not honour"),
        (Declined(), "Declined"),
        (Terminal(Declined("do not honour", code="card_declined")), "Declined [card_declined]: do not honour"),
        (psycopg.errors.UniqueViolation("duplicate"), "psycopg.errors.UniqueViolation [23505]: duplicate"),
        (psycopg.OperationalError("refused"), "psycopg.OperationalError: refused"),
        (ConnectionRefusedError(111, "refused"), "ConnectionRefusedError: [Errno 111] refused"),
        (
            ValidationError("required", code="required"),
            "django.core.exceptions.ValidationError [required]: ['required']",
        ),
    ],
)
def test_the_code_stands_between_the_type_and_the_text(exc: Exception, text: str) -> None:
    said = name_and_text(exc)

    assert said.removeprefix(f"{__name__}.") == text
    assert attribution(exc).message == said


def test_an_error_that_django_wrapped_has_the_code_of_what_it_wraps() -> None:
    exc = django.db.IntegrityError("duplicate")
    exc.__cause__ = psycopg.errors.UniqueViolation("duplicate")

    assert name_and_text(exc) == "django.db.utils.IntegrityError [23505]: duplicate"


def test_an_error_of_the_domain_does_not_borrow_the_code_of_its_cause() -> None:
    exc = Declined("no")
    exc.__cause__ = psycopg.errors.UniqueViolation("duplicate")

    assert error_code(exc) is None


def test_an_answer_to_urllib_has_its_status() -> None:
    with urllib.error.HTTPError("http://shop/", 503, "busy", Message(), None) as exc:
        assert name_and_text(exc) == "urllib.error.HTTPError [HTTP 503]: HTTP Error 503: busy"


@pytest.mark.parametrize("size", [9_000, 6_000_000])
def test_the_type_and_the_code_survive_a_text_that_is_cut(size: int) -> None:
    failure = attribution(Declined("x" * size, code="card_declined"))

    assert failure.message.startswith(f"{__name__}.Declined [card_declined]: xxx")
    assert len(failure.message) < 8_100


class Sly(Exception):
    """Raises for every attribute that may hold a code, and for what stands behind it."""

    @property
    def _raising(self) -> Any:
        raise RuntimeError("not now")

    sqlstate = pgcode = response = status = status_code = code = __cause__ = _raising  # type: ignore[assignment]


class SlyResponse:
    @property
    def status_code(self) -> int:
        raise RuntimeError("the stream was not read")


class Anything:
    """Has every attribute, each of which has every attribute."""

    def __getattr__(self, name: str) -> "Anything":
        return Anything()


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (Sly("no"), None),
        (Declined(response=SlyResponse()), None),
        (Declined(response=SlyResponse(), code="x"), "x"),
        (Declined(response=Anything(), code=Anything(), sqlstate=Anything()), None),
    ],
)
def test_reading_a_code_never_raises(exc: Exception, code: str | None) -> None:
    assert error_code(exc) == code


def test_an_exception_whose_attributes_all_raise_still_says_its_type_and_text() -> None:
    assert name_and_text(Sly("no")) == f"{__name__}.Sly: no"


def test_what_only_carries_itself_still_has_a_text() -> None:
    loop = Terminal("no")
    loop.carried = loop

    assert name_and_text(loop) == "Terminal: no"
