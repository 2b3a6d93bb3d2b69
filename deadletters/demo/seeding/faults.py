"""The faults that made-up letters died of: one for each group, its texts as a worker would have recorded them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from random import Random

from deadletters.demo.seeding.oddities import ODD_FAULTS
from deadletters.demo.seeding.texts import NUMBER, Fault, traceback_of
from deadletters.words.fingerprints import fingerprint
from queues.words.outcomes import Cause, FailureReason

STEADY_SHARE = 0.6
"""Share of the faults that occur all the time; the others have a beginning and an end."""

_INBOX, _OUTBOX, _PERSPECTIVES, _BROKER = "wh_inbox", "wh_outbox", "wh_perspective_events", "broker"


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where messages of a type are worked on."""

    source: str
    type: str
    file: str
    function: str
    destination: str | None = None
    perspective: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Raised:
    """What is raised. `chained`: what is behind it."""

    says: str
    reason: FailureReason
    cause: Cause = Cause.BUDGET_SPENT
    chained: str = ""


def _inbox(message_type: str, file: str, function: str) -> _Place:
    return _Place(source=_INBOX, type=message_type, file=file, function=function)


def _outbox(message_type: str, destination: str) -> _Place:
    function = "publish_" + destination.replace(".", "_").replace("-", "_")
    return _Place(
        source=_OUTBOX, type=message_type, file="outbound/bridges.py", function=function, destination=destination
    )


def _perspective(event_type: str, perspective: str) -> _Place:
    return _Place(
        source=_PERSPECTIVES,
        type=event_type,
        file="reports/projections.py",
        function=f"project_{perspective}",
        perspective=perspective,
    )


_PLACES = (
    _inbox("shop.PlaceOrder", "orders/handlers.py", "place_order"),
    _inbox("shop.ChargeCard", "payments/handlers.py", "charge_card"),
    _inbox("shop.RefundCard", "payments/handlers.py", "refund_card"),
    _inbox("shop.ShipOrder", "shipping/handlers.py", "ship_order"),
    _inbox("shop.PrintLabel", "shipping/labels.py", "print_label"),
    _inbox("shop.CalculateTax", "tax/handlers.py", "calculate_tax"),
    _inbox("shop.CheckFraud", "fraud/handlers.py", "check_fraud"),
    _inbox("shop.DeclareGoods", "customs/handlers.py", "declare_goods"),
    _inbox("shop.SendReceipt", "mail/handlers.py", "send_receipt"),
    _inbox("shop.SyncStock", "stock/handlers.py", "sync_stock"),
    _inbox("shop.ReserveStock", "stock/handlers.py", "reserve_stock"),
    _inbox("shop.ImportCatalogue", "catalogue/imports.py", "import_catalogue"),
    _inbox("accounts.CloseAccount", "accounts/handlers.py", "close_account"),
    _inbox("accounts.MergeCustomers", "accounts/merging.py", "merge_customers"),
    _inbox("billing.IssueInvoice", "billing/handlers.py", "issue_invoice"),
    _outbox("shop.OrderPlaced", "shop.warehouse"),
    _outbox("shop.OrderShipped", "shop.notifications"),
    _outbox("billing.InvoiceIssued", "billing.ledger"),
    _outbox("shop.StockChanged", "shop.marketplace-feed"),
    _perspective("shop.OrderPlaced", "order_totals"),
    _perspective("shop.PaymentReceived", "customer_balances"),
    _perspective("shop.StockChanged", "stock_levels"),
    _perspective("shop.OrderShipped", "delivery_times"),
    _Place(source=_BROKER, type="partner.PriceList", file="partners/consumer.py", function="read_price_list"),
)


def _raised(says: str, reason: FailureReason, chained: str = "") -> _Raised:
    return _Raised(says=says, reason=reason, chained=chained)


def _terminal(says: str, reason: FailureReason = FailureReason.UNKNOWN) -> _Raised:
    return _Raised(says=says, reason=reason, cause=Cause.TERMINAL)


_REASON = FailureReason
_RAISED = (
    _raised("TimeoutError: POST https://shop:s3cret@pay.example/charges/{n} timed out after 10 s", _REASON(2)),
    _terminal("shop.payments.CardDeclined [51]: insufficient funds for order {n}"),
    _raised("KeyError: 'street'", _REASON(5)),
    _raised("psycopg.errors.DeadlockDetected [40P01]: deadlock detected while updating order {n}", _REASON(8)),
    _raised("AttributeError: 'NoneType' object has no attribute 'strip'", _REASON(5)),
    _raised(
        "shop.stock.WarehouseUnreachable: north does not answer about {n}",
        _REASON(2),
        "ConnectionRefusedError [ECONNREFUSED]: [Errno 111] Connection refused",
    ),
    _raised("httpx.HTTPStatusError [429]: Client error '429 Too Many Requests' for order {n}", _REASON(8)),
    _terminal("shop.orders.EmptyOrder: order {n} has no line"),
    _raised("psycopg.errors.UniqueViolation [23505]: Key (order_id)=({n}) already exists.", _REASON(4)),
    _raised("ValueError: invalid literal for int() with base 10: '{n},00'", _REASON(5)),
    _raised("json.decoder.JSONDecodeError: Expecting value: line 1 column {n} (char 0)", _REASON(3)),
    _raised("ssl.SSLCertVerificationError [CERTIFICATE_VERIFY_FAILED]: certificate has expired", _REASON(2)),
    _terminal("shop.customs.EmbargoedCountry: parcel {n} may not be sent there", _REASON(4)),
    _raised("decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]", _REASON(5)),
    _raised("psycopg.errors.CannotConnectNow [57P03]: the database system is starting up", _REASON(1)),
    _raised("shop.fraud.ScoreMissing: no score for customer {n}", _REASON(99)),
    _raised("ZeroDivisionError: division by zero", _REASON(5)),
    _raised("smtplib.SMTPServerDisconnected: Connection unexpectedly closed after {n} bytes", _REASON(2)),
    _raised("IndexError: list index out of range", _REASON(5)),
    _raised("PermissionError [EACCES]: [Errno 13] Permission denied: '/srv/labels/{n}.pdf'", _REASON(99)),
    _raised("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position {n}", _REASON(3)),
    _raised("OSError [ENOSPC]: [Errno 28] No space left on device: '/srv/labels/{n}.pdf'", _REASON(7)),
    _raised("RecursionError: maximum recursion depth exceeded", _REASON(5)),
    _raised("django.core.exceptions.ValidationError: ['“{n}” value must be a decimal number.']", _REASON(4)),
    _raised("TypeError: unsupported operand type(s) for +: 'int' and 'str'", _REASON(5)),
    _raised("shop.tax.RateUnknown: no rate for region {n}", _REASON(99)),
    _terminal("shop.accounts.AlreadyClosed: account {n} is closed"),
    _raised("redis.exceptions.ConnectionError: Error 104 while reading from cache-{n}.example:6379", _REASON(2)),
    _raised("OverflowError: Python int too large to convert to C long", _REASON(5)),
    _raised("AssertionError: order {n}: 3 lines were reserved, 4 were ordered", _REASON(5)),
)
_INNER = (
    *("check_lines", "read_address", "round_amount", "ask_gateway", "load_customer", "apply_rules", "write_row"),
    *("match_rate", "build_document", "parse_answer", "pick_warehouse", "send_on"),
)


@dataclass(frozen=True, kw_only=True)
class SeededFault:
    """A fault under its number, with its fingerprint and the span of its deaths.

    `ends`, `begins`: ages as shares of the whole time, 0 = now. No fingerprint: the database makes one, of version 1.
    """

    number: int
    fault: Fault
    fingerprint: str | None
    version: int | None
    ends: float
    begins: float


def seeded_faults(groups: int, *, seed: int) -> list[SeededFault]:
    """Return the faults of that many groups, each with a fingerprint of its own; same arguments, same faults."""
    random = Random(seed)  # noqa: S311 - a story, not a secret
    ordinary = list(islice(_ordinary_faults(), max(groups - len(ODD_FAULTS), 0)))
    random.shuffle(ordinary)
    faults = [*ordinary, *ODD_FAULTS][:groups]  # the first ones get most letters, and odd ones can be large
    steady = steady_number(groups)
    return [_seeded(number, fault, number > steady, random) for number, fault in enumerate(faults, 1)]


def steady_number(groups: int) -> int:
    """Return how many of the groups, the first ones, die all the time."""
    return max(round(groups * STEADY_SHARE), 1)


def _seeded(number: int, fault: Fault, is_passing: bool, random: Random) -> SeededFault:
    ends, begins = 0.0, 1.0
    if is_passing:
        begins = random.choice((random.uniform(0.002, 0.04), random.uniform(0.04, 0.98)))
        ends = 0.0 if random.random() < 0.3 else begins * random.uniform(0.3, 0.97)
    text = None if fault.error is None else fault.error.replace(NUMBER, "100001")
    known = fingerprint(text, cause=fault.cause, reason=int(fault.reason))
    return SeededFault(
        number=number,
        fault=fault,
        fingerprint=None if fault.is_foreign else known.value,
        version=None if fault.is_foreign else known.version,
        ends=ends,
        begins=begins,
    )


def _ordinary_faults() -> Iterator[Fault]:
    """Yield ordinary faults without end; no two have one fingerprint."""
    for number in count():
        round_of_places, place = divmod(number, len(_PLACES))
        inner, raised = divmod(round_of_places + place * 7, len(_RAISED))
        yield _ordinary(_PLACES[place], _RAISED[raised], inner)


def _ordinary(place: _Place, raised: _Raised, inner: int) -> Fault:
    repeated = inner // len(_INNER)
    function = _INNER[inner % len(_INNER)] + (f"_{repeated}" if repeated else "")
    frames = [(place.file, place.function), (place.file.replace("handlers", "rules"), function)]
    fault = Fault(
        source=place.source,
        message_type=place.type,
        destination=place.destination,
        perspective=place.perspective,
        cause=raised.cause,
        reason=raised.reason,
        attempts=1 if raised.cause is Cause.TERMINAL else 10,
        error=traceback_of(raised.says, frames, behind=raised.chained),
    )
    return replace(fault, cause=Cause.IMPORTED, reason=FailureReason(17)) if place.source == _BROKER else fault
