"""What the pages cost with 1,000,000 dead letters in 10,000 groups, and what an admin list costs with as many rows.

Times are those of the server: a request through all middleware to the last byte, in this process, one at a time.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from statistics import median, quantiles
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter, DeadLetterSubject, FailureGroup
from deadletters.words.filters.cursors import Cursor
from tests.bench import machine
from tests.bench.harness import Bench
from tests.bench.rivals import ADMIN_LIST, rival

LETTERS, GROUPS = 1_000_000, 10_000
REQUESTS = 40
DEEP = 0.9
"""How much of all letters comes before a deep page."""
NONE = "zzznothing"


def pages_1m() -> Iterator[Bench]:
    """Yield a bench for each page: milliseconds of the slowest twentieth of its requests."""
    for name, address in _addresses().items():
        yield Bench(name=f"pages_1m_{name}", unit="ms", n=REQUESTS, ours=_slow(address), repeats=3)


def admin_rival() -> Iterator[Bench]:
    """Yield the benches against Django's admin list over the results of django-celery-results."""
    addresses = _addresses()
    with rival(ADMIN_LIST, rows=LETTERS) as admin:
        for name, ours, theirs in [
            ("first", "letters", ""),
            ("search", "text_none", f"?q={NONE}"),
            ("deep", "letters_deep", "?p=9000"),
        ]:
            yield Bench(
                name=f"admin_rival_{name}",
                unit="ms",
                n=1,
                ours=_usual(addresses[ours]),
                others={"django-celery-results": admin.measure(theirs)},
                repeats=5,
            )


@cache
def _reader() -> Client:
    """Return the browser of somebody who may do everything, before a full database."""
    machine.say(f"writing {LETTERS:,} letters")
    call_command("seed_dead_letters", count=LETTERS, groups=GROUPS, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.create_superuser("bench"))
    return client


@cache
def _addresses() -> Mapping[str, str]:
    """Return the addresses by name; those of lists once without, and once with each filter."""
    _reader()
    letter = DeadLetter.objects.filter(superseded_by=None).order_by("-dead_lettered_at")[1_000]
    group = FailureGroup.objects.order_by("-last_seen_at")[10]
    subject = DeadLetterSubject.objects.filter(dead_letter=letter.pk).first() or DeadLetterSubject.objects.all()[0]
    listed = {"letters": {}, "letters_deep": {"after": _deep()}, **_filters(letter, group, subject)}
    return {
        **{name: f"{reverse('deadletters:letters')}?{urlencode(values)}" for name, values in listed.items()},
        "overview": reverse("deadletters:overview"),
        "groups": reverse("deadletters:groups"),
        "groups_open": f"{reverse('deadletters:groups')}?sort=open",
        "groups_text": f"{reverse('deadletters:groups')}?q=timeout",
        "groups_by_type": f"{reverse('deadletters:groups')}?by=type",
        "group": reverse("deadletters:group", args=[group.pk]),
        "subjects": reverse("deadletters:subjects"),
        "subject": f"{reverse('deadletters:subject')}?{urlencode({'type': subject.type, 'id': subject.id})}",
        "letter": reverse("deadletters:letter", args=[letter.pk]),
        "audit": reverse("deadletters:audit"),
        "runs": reverse("deadletters:runs"),
        "queues": reverse("deadletters:queues"),
    }


def _filters(letter: DeadLetter, group: FailureGroup, subject: DeadLetterSubject) -> Mapping[str, Mapping[str, str]]:
    return {
        "open": {"status": "open"},
        "held": {"status": "held"},
        "type": {"type": letter.message_type},
        "reason": {"reason": "transport_exception"},
        "reason_open": {"reason": "transport_exception", "status": "open"},
        "source": {"source": "outbox"},
        "day": {"since": "24h"},
        "type_day": {"type": letter.message_type, "since": "24h"},
        "of_group": {"group": str(group.pk)},
        "of_subject": {"subject": f"{subject.type}:{subject.id}"},
        "text": {"q": "timeout"},
        "text_rare": {"q": str(letter.pk)},
        "text_none": {"q": NONE},
        "text_type": {"q": NONE, "type": letter.message_type},
    }


def _deep() -> str:
    """Return where a page deep in the list begins, as its links say it."""
    newest_first = DeadLetter.objects.filter(superseded_by=None).order_by("-dead_lettered_at", "-dead_letter_id")
    letter = newest_first[int(newest_first.count() * DEEP)]
    return str(Cursor(at=letter.dead_lettered_at, id=letter.pk))


def _slow(address: str) -> Callable[[], float]:
    return lambda: quantiles(_times(address, REQUESTS), n=20)[-1]


def _usual(address: str) -> Callable[[], float]:
    return lambda: median(_times(address, 5))


def _times(address: str, requests: int) -> list[float]:
    client = _reader()
    times = []
    for _ in range(requests):
        started = time.perf_counter()
        response = client.get(address)
        times.append((time.perf_counter() - started) * 1_000)
        if response.status_code != 200:
            raise RuntimeError(f"{address}: {response.status_code}")
    return times
