"""Builds that workers report, and the replays that begin with a new one."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from structlog.testing import capture_logs

from deadletters import generations
from deadletters.models import FailureGroup, Generation, GroupFingerprint, RecoveryRun
from deadletters.queries import replays
from deadletters.recovery import runs
from deadletters.words.errors import BadBuild
from queues import handles, instances
from queues.conf import conf
from queues.models import ServiceInstance
from queues.store import presence
from queues.words.handlers import registry
from tests.db.conftest import at_once
from tests.factories import a_letter, a_run

pytestmark = pytest.mark.django_db

TYPE = "shop.PlaceOrder"


def reports(build, *, service="shop", types=(TYPE,)):
    """Let a worker report its build."""
    process = presence.Process(instance_id=uuid4(), service=service, host="h", process_id=1)
    presence.say(process, {"generation": build, "types": list(types), "perspectives": {}})
    return process.instance_id


def is_gone(*instances):
    long_ago = F("last_heartbeat_at") - timedelta(hours=1)
    ServiceInstance.objects.filter(pk__in=instances).update(last_heartbeat_at=long_ago)


def a_group(number=1, **fields):
    group = FailureGroup.objects.create(group_id=uuid4(), title=f"fault {number}", **fields)
    GroupFingerprint.objects.create(fingerprint=f"{number:016x}", version=2, group=group)
    return group


def a_dead(number=1, **fields):
    return a_letter(
        **{"error_fingerprint": f"{number:016x}", "error_fingerprint_version": 2, "generation": "b-1", **fields}
    )


def begun():
    """Return group and build of the replays that began."""
    return sorted(RecoveryRun.objects.filter(kind="replay").values_list("group_id", "generation"))


def ship(build="b-2"):
    """Let the builds b-1 and then another one run, and be seen."""
    old = reports("b-1")
    generations.check()
    is_gone(old)
    new = reports(build)
    return generations.check(), new


def test_builds_are_registered_with_what_they_handle_and_seen_again():
    reports("b-1", types=["t.A"])
    reports("b-1", types=["t.B"])
    generations.check()
    Generation.objects.update(last_seen_at=F("first_seen_at") - timedelta(days=1))

    reports("b-1", types=["t.C"])
    generations.check()

    known = Generation.objects.get()
    assert (known.service, known.build, known.types) == ("shop", "b-1", ["t.A", "t.B", "t.C"])
    assert known.last_seen_at >= known.first_seen_at


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_missing_build_is_an_error_that_names_the_service_and_is_never_registered(name):
    with pytest.raises(BadBuild, match="shop reports has no name"):
        generations.register(service="shop", build=name, types=[TYPE])
    reports(name)
    reports("b-1")
    with capture_logs() as logged:
        generations.check()

    assert list(Generation.objects.values_list("build", flat=True)) == ["b-1"]
    assert [(entry["event"], entry["service"]) for entry in logged] == [("build_not_registered", "shop")]


def test_a_name_that_cannot_be_kept_is_refused():
    with pytest.raises(BadBuild, match="1 to 200 characters"):
        generations.register(service="shop", build="x" * 201, types=[])


def test_a_new_build_begins_one_run_for_each_group_with_something_to_replay():
    groups = [a_group(number) for number in (1, 2, 3)]
    a_dead(1), a_dead(1), a_dead(2)
    a_dead(3, status=2, operator_disposition=2)

    assert ship()[0] == 2

    assert begun() == sorted((group.pk, "b-2") for group in groups[:2])
    run = RecoveryRun.objects.get(group_id=groups[0].pk)
    assert (run.scope, run.actor) == ({"replay": {"group": str(groups[0].pk), "build": "b-2"}}, "build b-2")
    assert run.plan["canary"] > 0
    known = Generation.objects.get(build="b-2")
    assert known.replay_begun_at <= known.replay_ended_at


def test_the_same_build_reported_again_by_a_restarted_worker_replays_nothing():
    a_group()
    a_dead()
    _, worker = ship()
    is_gone(worker)
    RecoveryRun.objects.all().delete()

    reports("b-2")

    assert generations.check() == 0
    assert begun() == []


def test_the_first_build_of_a_service_is_only_registered():
    a_group()
    a_dead()
    reports("b-1")

    assert generations.check() == 0
    known = Generation.objects.get()
    assert (known.replay_begun_at, known.replay_ended_at is None) == (None, False)


def test_the_first_build_that_is_seen_replays_what_died_on_one_that_nobody_registered():
    group = a_group()
    a_dead()
    reports("b-9")

    assert generations.check() == 1
    assert begun() == [(group.pk, "b-9")]


def test_a_return_to_an_older_build_is_nothing_new():
    group = a_group()
    _, new = ship()
    is_gone(new)
    a_dead(generation="b-2")
    reports("b-1")

    assert generations.check() == 0
    assert begun() == []
    assert replays.replayable(group.pk, "b-1").exists(), "it is not replayed because the build is not new"


def test_while_old_and_new_workers_report_in_turn_the_new_build_replays_once():
    group = a_group()
    a_dead()
    reports("b-1")
    generations.check()
    reports("b-2")

    assert [generations.check() for _ in range(3)] == [1, 0, 0]
    assert begun() == [(group.pk, "b-2")]


def test_what_the_old_build_killed_while_it_was_replaced_is_replayed_when_it_is_gone():
    old = reports("b-1")
    generations.check()
    reports("b-2")
    generations.check()
    group = a_group()
    a_dead()
    assert generations.check() == 0

    is_gone(old)

    assert [generations.check() for _ in range(2)] == [1, 0]
    assert begun() == [(group.pk, "b-2")]


def test_a_group_marked_fixed_waits_for_its_build():
    group = a_group(state="fixed", fixed_in_generation="b-3")
    a_dead(cause="terminal")
    _, new = ship("b-2")
    assert begun() == []

    is_gone(new)
    reports("b-3")

    assert generations.check() == 1
    assert begun() == [(group.pk, "b-3")]


def test_a_group_marked_fixed_in_the_running_build_is_replayed_by_the_next_check():
    group = a_group()
    a_dead(cause="terminal")
    ship()
    assert begun() == []

    FailureGroup.objects.update(state="fixed", fixed_in_generation="b-2")

    assert [generations.check() for _ in range(2)] == [1, 0]
    assert begun() == [(group.pk, "b-2")]


def test_groups_start_one_after_the_other_and_none_later_than_the_bound(monkeypatch):
    monkeypatch.setattr(generations, "MAX_STAGGER_SECONDS", 3 * generations.STAGGER_SECONDS)
    monkeypatch.setattr(generations, "PAGE_GROUPS", 2)
    for number in range(6):
        a_group(number)
        a_dead(number)
    ship()

    starts = list(RecoveryRun.objects.order_by("starts_at").values_list("starts_at", flat=True))
    waits = [round((start - starts[0]).total_seconds() / generations.STAGGER_SECONDS, 1) for start in starts]
    assert [round(wait) for wait in waits] == [0, 1, 2, 3, 3, 3]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("survived", range(5))
def test_a_check_that_dies_anywhere_is_continued_by_the_next_one(survived, monkeypatch):
    monkeypatch.setattr(generations, "PAGE_GROUPS", 2)
    groups = [a_group(number) for number in range(5)]
    for number in range(5):
        a_dead(number)
    reports("b-1")
    generations.check()
    reports("b-2")
    whole, calls = runs.begin, []

    def dies(**named):
        calls.append(named)
        if len(calls) > survived:
            raise Killed
        return whole(**named)

    monkeypatch.setattr(runs, "begin", dies)
    with pytest.raises(Killed):
        generations.check()
    monkeypatch.setattr(runs, "begin", whole)

    assert generations.check() == 5 - survived // 2 * 2, "the page in which it died was undone, those before it stay"
    assert begun() == sorted((group.pk, "b-2") for group in groups)


@pytest.mark.django_db(transaction=True)
def test_many_workers_that_report_a_build_at_once_begin_one_replay_of_each_group():
    groups = [a_group(number) for number in range(3)]
    for number in range(3):
        a_dead(number)
    reports("b-1")
    generations.check()
    for _ in range(4):
        reports("b-2")

    counts = at_once(*[generations.check] * 4)

    assert sum(counts) == 3
    assert begun() == sorted((group.pk, "b-2") for group in groups)


@pytest.mark.django_db(transaction=True)
def test_ten_thousand_groups_are_looked_at_in_transactions_of_a_page(monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH made AS (INSERT INTO failure_groups (group_id, title)"
            " SELECT gen_random_uuid(), 'fault' FROM generate_series(1, 10000) RETURNING group_id)"
            " INSERT INTO group_fingerprints (fingerprint, version, group_id)"
            " SELECT to_char(row_number() OVER (), 'FM0000000000000000'), 2, group_id FROM made"
        )
    for number in (1, 5_000, 10_000):
        a_letter(error_fingerprint=f"{number:016}", error_fingerprint_version=2, generation="b-1")
    looked_at = []
    whole = replays.groups_to_replay
    monkeypatch.setattr(
        replays, "groups_to_replay", lambda *asked: looked_at.append(connection.in_atomic_block) or whole(*asked)
    )

    assert ship()[0] == 3

    assert len(looked_at) == 10_000 // generations.PAGE_GROUPS + 1
    assert all(looked_at)


def test_what_a_build_replayed_is_counted_over_its_items():
    letters = [a_dead() for _ in range(3)]
    generations.register(service="shop", build="b-1", types=[TYPE])
    generations.register(service="shop", build="b-2", types=[TYPE])
    a_run(letters[:2], kind="replay", generation="b-2", group_id=uuid4(), states=["recovered", "failed_again"])
    a_run(letters[2:], kind="replay", generation="b-2", group_id=uuid4(), states=["recovered"])
    a_run(letters[2:], kind="person", generation="b-2", states=["skipped"])

    new, old = replays.last_builds()

    assert (new.generation.build, new.groups, new.letters) == ("b-2", 2, 3)
    assert (new.totals["recovered"], new.totals["failed_again"], new.totals["skipped"]) == (2, 1, 0)
    assert (old.groups, old.letters) == (0, 0)


def test_this_process_reports_its_own_build_and_types(handlers):
    handles("test.Mine")(lambda message: None)
    instances.tick()
    generations.check()

    known = Generation.objects.get(build=conf().generation)
    assert set(registry.types()) == set(known.types)
