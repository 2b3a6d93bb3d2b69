"""What a page costs whatever the data: few statements, and few bytes for fifty rows."""

import gzip
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from deadletters.models import DeadLetter, DeadLetterSubject, FailureGroup, GroupFingerprint
from tests.access_table import TABLE
from tests.addresses import address
from tests.factories import a_user

pytestmark = pytest.mark.django_db

MOST_QUERIES, MOST_BYTES = 12, 60_000
MORE_QUERIES = {"queues": 30, "run": 30, "run_preview": 30}
"""Pages that count more things, or read each part of a preview in a time of its own."""
PAGES = [name for name, entry in TABLE.items() if entry.kind == "page" and "get" in entry.methods]


@pytest.fixture
def reader(signed_in):
    """The browser of somebody who may do everything, before ugly data: more than a page of each kind."""
    call_command("seed_dead_letters", count=2_000, groups=120, verbosity=0)
    return signed_in(a_user("rita", is_superuser=True))


def cost(reader, here: str) -> tuple[int, int]:
    """Return how many statements a page takes, and how many bytes it is compressed."""
    with CaptureQueriesContext(connection) as asked:
        response = reader.get(here)
    assert response.status_code in (200, 302), here
    return len(asked), len(gzip.compress(response.content, 6))


def test_every_page_takes_few_statements_and_few_bytes_whatever_the_data(reader):
    costs = {name: cost(reader, address(name)) for name in PAGES}

    assert {name: cost for name, cost in costs.items() if cost[0] > MORE_QUERIES.get(name, MOST_QUERIES)} == {}
    assert {name: cost for name, cost in costs.items() if cost[1] > MOST_BYTES} == {}


def test_a_letter_and_a_group_of_any_fault_take_few_statements(reader):
    groups = [reverse("deadletters:group", args=[group.pk]) for group in FailureGroup.objects.all()[:15]]
    samples = FailureGroup.objects.exclude(sample_letter_id=None).values_list("sample_letter_id", flat=True)[:15]
    letters = [reverse("deadletters:letter", args=[letter]) for letter in samples]

    costs = {here: cost(reader, here) for here in [*groups, *letters]}

    assert len(costs) == 30
    assert {here: cost for here, cost in costs.items() if cost[0] > MOST_QUERIES} == {}


def test_a_list_takes_few_statements_by_any_filter(reader):
    group, *others = FailureGroup.objects.order_by("-letters")[:5]
    GroupFingerprint.objects.filter(group__in=others).update(group=group)
    letter = DeadLetter.objects.exclude(owner=None).exclude(stream_id=None)[0]
    subject = DeadLetterSubject.objects.all()[0]
    filters = [
        {"group": str(group.pk)},
        {"group": str(group.pk), "status": "open"},
        {"subject": f"{subject.type}:{subject.id}"},
        {"stream": str(letter.stream_id)},
        {"owner": letter.owner},
        {"owner": "-"},
        {"type": letter.message_type, "since": "30d"},
        {"reason": "max_attempts_exceeded", "q": "a"},
        {"fingerprint": letter.error_fingerprint},
        {"again": "yes"},
        {"generation": letter.generation},
        {"source": "other"},
    ]

    costs = {str(each): cost(reader, f"{reverse('deadletters:letters')}?{urlencode(each)}") for each in filters}

    assert {each: cost for each, cost in costs.items() if cost[0] > MOST_QUERIES} == {}
    assert {each: cost for each, cost in costs.items() if cost[1] > MOST_BYTES} == {}
