"""Orders of the demo shop, seeded: the same seed, the same orders."""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

MOODS = {
    "fine": 80,
    "flaky": 8,
    "pending": 4,
    "declined": 2,
    "gateway": 2,
    "no-address": 1,
    "out-of-stock": 1,
    "warehouse": 2,
}
"""How often an order meets which fate, out of the sum."""

NAMES = ("ada", "björk", "chidi", "dolores", "emre", "fatou", "grace", "haruki", "iñaki", "joão")
SKUS = ("mug", "teapot", "lamp", "chair", "desk", "notebook", "ink")


def orders(seed: int) -> Iterator[dict[str, Any]]:
    """Yield orders for ever."""
    random = Random(seed)  # noqa: S311 - a story, not a secret
    for number in count(1):
        yield _order(random, number)


def _order(random: Random, number: int) -> dict[str, Any]:
    name = random.choice(NAMES)
    (mood,) = random.choices(list(MOODS), weights=list(MOODS.values()))
    lines = [
        {"sku": random.choice(SKUS), "quantity": random.randint(1, 4), "cents": random.randint(199, 24_999)}
        for _ in range(random.randint(1, 3) if random.random() > 0.004 else 0)
    ]
    return {
        "order_id": str(100_000 + number),
        "customer": f"{name}-{random.randint(1, 60)}",
        "email": f"{name}@mail.example",
        "card_number": "4242 4242 4242 4242",
        "address": None if mood == "no-address" else {"street": "1 Harbour Street", "city": "Zürich"},
        "warehouse": random.choice(("north", "south")),
        "lines": lines,
        "mood": mood,
    }
