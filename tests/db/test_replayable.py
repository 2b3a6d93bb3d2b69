"""Which letters a new build may try once more."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from deadletters.models import DeadLetter, FailureGroup, Generation, GroupFingerprint, RecoveryPolicy
from deadletters.queries import replays
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

TYPE = "shop.PlaceOrder"
OLD, NEW = "build-1", "build-2"
PRINT = "00000000000000aa"


@pytest.fixture
def group() -> FailureGroup:
    """Make a group and a build of the shop that is new to it."""
    made = FailureGroup.objects.create(group_id=uuid4(), title="ValueError")
    GroupFingerprint.objects.create(fingerprint=PRINT, version=2, group=made)
    Generation.objects.create(service="shop", build=OLD, types=[TYPE], perspectives=["totals"])
    Generation.objects.create(service="shop", build=NEW, types=[TYPE], perspectives=["totals"])
    return made


def a_dead(**fields) -> DeadLetter:
    return a_letter(**{"error_fingerprint": PRINT, "error_fingerprint_version": 2, "generation": OLD, **fields})


def is_replayed(group: FailureGroup, build: str = NEW) -> bool:
    by_group = set(replays.groups_to_replay(build, replays.FIRST, 100).group_ids)
    chosen = replays.replayable(group.group_id, build).exists()
    assert chosen == (group.group_id in by_group)
    return chosen


def test_an_open_letter_that_died_on_the_old_build_is_tried_once_more(group):
    letter = a_dead()

    assert list(replays.replayable(group.group_id, NEW)) == [letter]
    assert is_replayed(group)


LATER, BEFORE = timezone.now() + timedelta(days=1), timezone.now() - timedelta(days=1)
LETTERS = {
    "held by its policy": ({"status": 2}, True),
    "held by a person": ({"status": 2, "operator_disposition": 2}, False),
    "to be held by a person when it comes back": ({"operator_disposition": 2}, False),
    "to be retried now": ({"operator_disposition": 1}, True),
    "being recovered": ({"status": 1}, False),
    "recovered": ({"status": 3}, False),
    "given up": ({"status": 4, "operator_disposition": 3}, False),
    "given up by its policy": ({"status": 4}, False),
    "tried on this build": ({"retried_on_generations": [NEW]}, False),
    "tried on another build": ({"retried_on_generations": [OLD, "build-0"]}, True),
    "dead on this build": ({"generation": NEW}, False),
    "without any automatic recovery left": ({"recovery_attempts": 99}, True),
    "quiet": ({"quiet_until": LATER}, False),
    "quiet no more": ({"quiet_until": BEFORE}, True),
    "quiet until another build": ({"quiet_until_generation": "build-3"}, False),
    "quiet until this build": ({"quiet_until_generation": NEW}, True),
    "quiet until no build": ({"quiet_until_generation": ""}, True),
    "of a type that the build does not handle": ({"message_type": "shop.Other"}, False),
    "of an event of a perspective": ({"source_table": "wh_perspective_events", "perspective_name": "totals"}, True),
    "of an unknown perspective": ({"source_table": "wh_perspective_events", "perspective_name": "search"}, False),
    "of the outbox": ({"source_table": "wh_outbox", "message_type": "shop.Any"}, True),
    "of a broker": ({"source_table": "broker"}, True),
    "terminal": ({"cause": "terminal"}, False),
    "of a lost worker": ({"cause": "worker_lost"}, False),
    "of an adopted database": ({"cause": None}, True),
    "of an adopted database, of a lost worker": ({"cause": None, "failure_reason": 6}, False),
}


@pytest.mark.parametrize(("fields", "expected"), LETTERS.values(), ids=LETTERS.keys())
def test_a_letter_is_replayed_or_not(group, fields, expected):
    a_dead(**fields)

    assert is_replayed(group) is expected


def test_a_letter_that_died_earlier_on_this_build_and_then_on_another_is_not_replayed(group):
    letter = a_dead(deaths=2)
    letter.death_rows.filter(number=1).update(generation=NEW)

    assert not is_replayed(group)


def test_an_outbox_message_of_another_service_is_left_to_its_builds(group):
    Generation.objects.create(service="bank", build="bank-7")
    a_dead(source_table="wh_outbox", generation="bank-7")
    assert not is_replayed(group)

    Generation.objects.create(service="bank", build=NEW)
    assert is_replayed(group)


GROUPS = {
    "fixed in this build": ({"state": "fixed", "fixed_in_generation": NEW}, True, True),
    "fixed in another build": ({"state": "fixed", "fixed_in_generation": "build-3"}, False, False),
    "regressed after a fix": ({"state": "regressed", "fixed_in_generation": NEW}, True, False),
    "held": ({"state": "held"}, False, False),
    "held by disposition": ({"operator_disposition": 2, "held_at": BEFORE}, False, False),
    "quiet": ({"quiet_until": LATER}, False, False),
    "quiet until another build": ({"quiet_until_generation": "build-3"}, False, False),
    "quiet until this build": ({"quiet_until_generation": NEW}, True, False),
    "quiet until more letters": ({"quiet_until_count": 3}, False, False),
    "quiet until as many letters": ({"quiet_until_count": 2}, True, False),
}


@pytest.mark.parametrize(("fields", "transient", "terminal"), GROUPS.values(), ids=GROUPS.keys())
def test_what_a_person_said_of_the_group_decides_and_a_fix_takes_causes_that_no_schedule_takes(
    group, fields, transient, terminal
):
    FailureGroup.objects.filter(pk=group.pk).update(**fields)
    by_cause = {a_dead(cause=cause).pk: cause for cause in ("budget_spent", "terminal")}

    chosen = {by_cause[pk] for pk in replays.replayable(group.group_id, NEW).values_list("pk", flat=True)}

    assert chosen == {name for name, is_in in (("budget_spent", transient), ("terminal", terminal)) if is_in}


def test_a_policy_that_an_administrator_made_not_automatic_keeps_its_letters(group):
    a_dead()
    assert is_replayed(group)

    RecoveryPolicy.objects.filter(cause="budget_spent").update(is_automatic=False)
    assert not is_replayed(group)


def test_a_group_that_nobody_has_and_a_build_that_nobody_reported_have_nothing(group):
    a_dead()

    assert not replays.replayable(uuid4(), NEW).exists()
    assert not is_replayed(group, "build-9")


def test_groups_are_looked_at_in_pages_and_the_last_page_says_so(group):
    a_dead()
    for number in range(4):
        other = FailureGroup.objects.create(group_id=uuid4())
        GroupFingerprint.objects.create(fingerprint=f"{number:016}", version=2, group=other)
    pages, after = [], replays.FIRST
    while after is not None:
        page = replays.groups_to_replay(NEW, after, 2)
        pages.append(page)
        after = page.last

    assert [len(page.group_ids) for page in pages].count(1) == 1
    assert len(pages) == 3
