"""What is odd among the made-up letters: texts, payloads and ids that break a careless page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deadletters.demo.seeding.texts import Fault, traceback_of
from queues.words.errors import InvalidMessage
from queues.words.outcomes import Cause, FailureReason
from queues.words.payloads import MARK, PayloadLimits, encode_bytes

HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert('order')</script>{{ 7*7 }}"
ARABIC = "رفضت البطاقة"
REVERSED = "\u202egnp.yppah\u202c"
FAMILY = "👩‍👩‍👧‍👦🏴‍☠️"

ODD_SUBJECTS = (
    *(HOSTILE, ARABIC, REVERSED, FAMILY, "Zoë Ångström", "a:b:c", "../../etc/passwd", " ", "'; DROP TABLE orders; --"),
    *("x" * 500, "%00", "line\nbreak", "¡Ñandú!", "100% off & more"),
)


def _odd(
    error: str | None,
    *,
    cause: Cause = Cause.BUDGET_SPENT,
    reason: int = 99,
    source: str = "wh_inbox",
    message_type: str = "shop.PlaceOrder",
    destination: str | None = None,
    perspective: str | None = None,
    attempts: int = 10,
    is_foreign: bool = False,
) -> Fault:
    return Fault(
        source=source,
        message_type=message_type,
        cause=cause,
        reason=FailureReason(reason),
        attempts=attempts,
        error=error,
        destination=destination,
        perspective=perspective,
        is_foreign=is_foreign,
    )


def _names_and_texts() -> Iterator[Fault]:
    place = [("orders/handlers.py", "place_order")]
    yield _odd(traceback_of(f"ValueError: {HOSTILE} in order {{n}}", [*place, ("orders/names.py", "read_name")]))
    yield _odd(traceback_of(f"shop.payments.CardDeclined: {ARABIC} {REVERSED} {{n}}", [*place, ("x/bank.py", "ask")]))
    yield _odd(traceback_of(f"LookupError: no stock of {FAMILY} {{n}}", [*place, ("stock/emoji.py", "find")]))
    yield _odd(
        traceback_of(
            "PermissionError: Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2VjcmV0 was refused, password=hunter2 for {n}",
            [*place, ("accounts/tokens.py", "check_token")],
        )
    )
    yield _odd("shop.imports.BadFile: row {n}\n" + "\n".join(f"row {at}: a cell was empty" for at in range(1500)))
    yield _odd("MemoryError: " + "A" * 20_000, message_type="shop.ImportCatalogue")
    yield _odd("the printer said no (order {n})", message_type="shop.PrintLabel")
    yield _odd("  \n\n  SomethingBad: after blank lines, order {n}", message_type="shop.PrintLabel")
    yield _odd("Unknown", reason=99, message_type="X" * 480)
    yield _odd(
        "System.InvalidOperationException: order {n}\r\n   at Shop.Orders.Place(Order order)\r\n   at Shop.Host.Run()",
        message_type="Shop.Orders.PlaceOrder, Shop",
        reason=5,
        is_foreign=True,
    )
    for place_of_bug in ("read_total", "read_totals"):
        yield _odd(
            traceback_of("KeyError: 'total'", [("reports/totals.py", place_of_bug)]),
            source="wh_perspective_events",
            perspective="order_totals",
            message_type="shop.OrderPlaced",
        )


def _without_text() -> Iterator[Fault]:
    yield _odd(None, cause=Cause.BUDGET_SPENT, reason=5)
    yield _odd("", cause=Cause.TERMINAL, reason=99, attempts=1)
    yield _odd(" \n ", cause=Cause.BUDGET_SPENT, reason=2, source="wh_outbox", destination="shop.warehouse")
    yield _odd(None, cause=Cause.IMPORTED, reason=17, source="broker", message_type="partner.PriceList")


def _causes() -> Iterator[Fault]:
    yield _odd("exceeded retry limit", cause=Cause.WORKER_LOST, reason=6, message_type="shop.ResizePicture", attempts=2)
    yield _odd("asked to run again after 3:00:00", cause=Cause.DELAY_CAP, message_type="shop.ChargeCard", attempts=101)
    yield _odd("No live worker handles messages of type shop.OldCommand.", cause=Cause.NO_HANDLER, attempts=0)
    yield _odd("The payload cannot be read: NaN is not JSON", cause=Cause.UNREADABLE, reason=3, attempts=0)
    yield _odd(
        "The payload cannot be read: it nests deeper than 100 levels", cause=Cause.UNREADABLE, reason=3, attempts=0
    )
    yield _odd("Moved by olga: duplicates of last week's import", cause=Cause.OPERATOR, attempts=0)
    yield _odd(
        "queues.words.errors.NoRoute: no transport is routed to shop.warehosue",
        source="wh_outbox",
        destination="shop.warehosue",
        message_type="shop.OrderPlaced",
    )
    yield _odd(
        "amqp.exceptions.NotFound [404]: NOT_FOUND - no exchange 'prices' in vhost '/'",
        cause=Cause.IMPORTED,
        reason=17,
        source="broker",
        destination="prices",
        message_type="partner.PriceList",
    )


_RARE_REASONS = (0, 1, 7, 8, 10, 11, 12, 13, 14, 15, 16, 18)


def _reasons() -> Iterator[Fault]:
    for reason in _RARE_REASONS:
        name = FailureReason(reason).name.lower().replace("_", " ")
        frames = [("platform/limits.py", f"check_{reason}")]
        yield _odd(traceback_of(f"shop.platform.Refused: {name}, message {{n}}", frames), reason=reason)


ODD_FAULTS: Sequence[Fault] = (*_names_and_texts(), *_without_text(), *_causes(), *_reasons())


@dataclass(frozen=True, kw_only=True)
class Body:
    """A payload as a row keeps it: JSON text, the exact bytes where that is not exact, and their number."""

    json: str
    raw: bytes | None
    size: int


_READABLE = (
    f'{{"order_id": "1", "note": "{HOSTILE.replace(chr(34), chr(92) + chr(34))}"}}',
    f'{{"order_id": "2", "name": "{ARABIC}", "file": "{REVERSED}", "family": "{FAMILY}"}}',
    '{"order_id": "3", "name": "nul \\u0000 inside", "half": "\\ud83d"}',
    '{"order_id": "4", "order_id": "5", "total": 1e3}',
    f'{{"order_id": "6", "total": {"9" * 60}.{"1" * 40}, "huge": {"7" * 5000}}}',
    '{"order_id": "7", "password": "hunter2", "nested": {"api_key": "sk_live_51H", "list": [{"secret": "x"}]}}',
    '{"callback": "https://shop:s3cret@callback.example/7", "authorization": "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x"}',
    '{"order_id": "8", "tree": ' + '{"a":[' * 45 + "null" + "]}" * 45 + "}",
    '"only a text"',
    "[]",
    "null",
    "-0.0",
    '{"": "", " ": null, "a\\nb": true, "<b>": {"<i>": "</script>"}}',
    '{"order_id": "9", "lines": [' + ",".join(f'{{"sku": "sku-{at}", "quantity": {at}}}' for at in range(400)) + "]}",
)
_UNREADABLE = (
    b'{"order_id": "10", "total": NaN}',
    b'{"name": "caf\xe9"}',
    b"[" * 500 + b"]" * 500,
    b"",
    b"\x89PNG\r\n",
)


def odd_bodies() -> list[Body]:
    """Return the odd payloads, the unreadable ones too, as the engine would store them."""
    limits = PayloadLimits()
    bodies = [encode_bytes(text.encode(), limits=limits) for text in _READABLE]
    made = [Body(json=body.json, raw=body.raw, size=body.size) for body in bodies]
    return made + [_unreadable(raw, limits) for raw in _UNREADABLE]


def _unreadable(raw: bytes, limits: PayloadLimits) -> Body:
    try:
        encode_bytes(raw, limits=limits)
    except InvalidMessage:
        return Body(json=f'{{"{MARK}": "unreadable"}}', raw=raw, size=len(raw))
    raise ValueError("this payload can be read")
