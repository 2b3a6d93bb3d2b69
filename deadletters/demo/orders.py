"""Orders of the demo shop, seeded: the same seed, the same orders."""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

FATES = (
    *("no lines", "bad quantity", "too much discount", "misspelt destination", "gift", "unknown field"),
    *("no score", "fraud suspected", "flaky model", "odd birthday"),
    *("declined", "stolen card", "bank pending", "bank undecided", "gateway timeout", "flaky gateway"),
    *("unknown currency", "paid in text", "refunded too much"),
    *("no tax rate", "bad tax amount", "endless regions", "out of stock", "bad shelf", "nothing per box"),
    *("no address", "long label", "no carrier", "carrier throttles", "embargo", "no tariff", "bad declaration"),
    *("mail refused", "mailbox full", "old template", "plain ascii", "huge picture", "killer", "slow report"),
    *("retired command", "discount invoice", "not a number", "not text", "too deep", "exact bytes"),
)
"""What may become of an order; each handler knows its own. Dealt like cards, so that none is long in coming."""

FATED_OF_FIVE = 2

NAMES = (
    *("ada", "björk", "chidi", "dolores", "emre", "fatou", "grace", "haruki", "iñaki", "joão", "عائشة", "李雷"),
    *("<b>robert</b>", "<img src=x onerror=alert(1)>", "o'neil", "👩‍🚀 sally", "\u202ekcirtap"),
)
STREETS = ("1 Harbour Street", "Rue de l'Église 7", "北京路 12", "Straße des 17. Juni 135")
SKUS = ("mug", "teapot", "lamp", "chair", "desk", "notebook", "ink")
COUNTRIES = ("CH", "CH", "NO", "JP")


def orders(seed: int) -> Iterator[dict[str, Any]]:
    """Yield orders for ever; two of five meet a fate, the others none."""
    random = Random(seed)  # noqa: S311 - a story, not a secret
    fates: list[str] = []
    for number in count(1):
        if not fates:
            fates = random.sample(FATES, len(FATES))
        yield _order(random, number, fates.pop() if number % 5 < FATED_OF_FIVE else "fine")


def _order(random: Random, number: int, fate: str) -> dict[str, Any]:
    name = random.choice(NAMES)
    lines = [
        {"sku": random.choice(SKUS), "quantity": random.randint(1, 4), "cents": random.randint(199, 24_999)}
        for _ in range(random.randint(1, 3))
    ]
    return {
        "order_id": str(100_000 + number),
        "customer": f"{name}-{random.randint(1, 60)}",
        "email": f"customer-{number}@mail.example",
        "card_number": "4242 4242 4242 4242",
        "address": {"street": random.choice(STREETS), "city": "Zürich", "country": random.choice(COUNTRIES)},
        "warehouse": random.choice(("north", "south")),
        "lines": lines,
        "fate": fate,
    }
