"""Workers and builds on the pages: who is alive, what they run, and what each build replayed."""

from uuid import uuid4

import pytest
from django.db import connection

from deadletters.models import Generation
from tests.db.rows import write_row
from tests.factories import a_letter, a_run
from tests.web.conftest import HTMX
from tests.web.waiting import a_worker, at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken")]


def test_workers_are_alive_by_the_clock_of_the_database_and_say_what_they_run(page, settings):
    running = {"id": str(uuid4()), "type": "shop.PlaceOrder", "attempt": 3, "started_at": at(seconds=-9).isoformat()}
    a_worker(
        metadata={
            "generation": "build-9",
            "types": ["shop.PlaceOrder"],
            "perspectives": {"totals": ["x"]},
            "draining": "wh_inbox",
            "message": running,
            "ticked_at": at(seconds=-3).isoformat(),
        }
    )
    silent = a_worker(host_name="host-b", last_heartbeat_at=at(seconds=-61), metadata={"types": ["by.Hand"]})
    write_row("wh_inbox", scheduled_for=at(minutes=-1))
    write_row("wh_perspective_events", scheduled_for=at(minutes=-1))

    answer = page.get("/queues/workers/")
    first, second = answer.context["workers"]
    assert (first.is_alive, first.generation, first.running.attempt) == (True, "build-9", "3")
    assert (second.instance_id, second.is_alive) == (silent.pk, False)
    assert answer.context["unhandled"].value == ["by.Hand"]
    content = answer.content.decode()
    for said in ("1 is alive.", "shop.PlaceOrder", "build-9", "Silent", "No live worker handles"):
        assert said in content


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        3,
        {"types": "x", "message": "y", "perspectives": [1], "ticked_at": "never"},
        {"message": {"type": "t"}},
    ],
)
def test_a_worker_whose_metadata_is_anything_is_shown(page, metadata):
    a_worker(metadata=metadata)

    assert "host-a" in page.get("/queues/workers/").content.decode()


def test_metadata_that_nests_too_deep_is_not_parsed(page):
    worker = a_worker()
    with connection.cursor() as cursor:
        deep = "[" * 3000 + "]" * 3000
        cursor.execute(
            "UPDATE wh_service_instances SET metadata = jsonb_build_object('types', %s::jsonb) WHERE instance_id = %s",
            [deep, worker.pk],
        )

    assert "host-a" in page.get("/queues/workers/").content.decode()


def test_the_last_builds_are_shown_with_what_each_replayed_and_lead_to_its_runs(page):
    for build in ("build-1", "build-2 & more"):
        Generation.objects.create(service="shop", build=build)
    letters = [a_letter() for _ in range(3)]
    replay = {"kind": "replay", "generation": "build-2 & more", "state": "finished"}
    a_run(letters, group_id=uuid4(), states=["recovered", "recovered", "failed_again"], **replay)
    a_run(letters[:1], kind="person", generation="build-1")

    answer = page.get("/queues/workers/")
    new, old = answer.context["builds"].value
    assert (new.groups, new.letters, new.totals["recovered"], old.groups) == (1, 3, 2, 0)
    content = answer.content.decode()
    assert "nothing replayed" in content
    address = "/runs/?kind=replay&amp;generation=build-2%20%26%20more"
    assert f'href="{address}"' in content

    listed = page.get(address.replace("&amp;", "&"))
    assert [row.run.generation for row in listed.context["page"].rows] == ["build-2 & more"]
    assert "Recovery runs begun for a new build, on build build-2 &amp; more" in listed.content.decode()


def test_the_builds_cost_the_same_however_many_there_are_and_are_not_polled(page, django_assert_max_num_queries):
    for number in range(12):
        Generation.objects.create(service="shop", build=f"build-{number}")

    with django_assert_max_num_queries(16):
        answer = page.get("/queues/workers/")
    assert len(answer.context["builds"].value) == 10
    assert page.get("/queues/workers/", headers=HTMX).context["builds"] is None
