"""Claims and their leases, whichever source is claimed from, and what is left of a claim or connection that is lost."""

import threading
from contextlib import suppress

import pytest
from django.db import OperationalError

from deadletters.models import DeadLetter
from queues.models import DeliveryLogEntry
from queues.testing import drain
from tests.db.conftest import at_once
from tests.db.sources import LEASE, counts, fails

pytestmark = pytest.mark.django_db


def test_a_claim_counts_nothing_and_a_run_counts_one(work):
    work.does = fails
    work_id = work.put()
    work.claim()
    claimed = work.row(work_id)["attempts"]
    work.leases_lapse()
    work.drain()

    assert claimed == 0
    row = work.row(work_id)
    assert row["attempts"] - row["releases"] == 1


def test_what_is_claimed_is_not_claimed_again_before_its_lease_ends(work):
    ids = {work.put(n) for n in range(3)}

    first, _ = work.claim()
    second, _ = work.claim()
    work.leases_lapse()
    third, _ = work.claim()

    assert {row.message_id for row in first} == {row.message_id for row in third} == ids
    assert second == []


def test_a_claim_given_back_counts_nothing_and_is_due_at_once(work):
    ids = [work.put(n, stream="s") for n in range(2)] + [work.put(2, attempts=4)]
    _, held = work.claim()
    held.release()

    rows, _ = work.claim()

    assert [row.message_id for row in rows] == ids
    assert [(row.attempts, row.releases, row.suspect, row.lapsed) for row in rows] == [
        (0, 0, False, False),
        (0, 0, False, False),
        (4, 0, False, False),
    ], "what was charged before stays charged"


def test_giving_back_a_claim_that_another_took_over_leaves_the_other_its_lease(work):
    work_id = work.put()
    _, old = work.claim()
    work.leases_lapse()
    _, new = work.claim()

    old.release()

    assert new.is_held()
    assert not old.is_held()
    assert counts(work.row(work_id)) == (1, 0, True), "a consumer that vanished still pays"


def test_a_renewal_extends_what_is_held_from_the_database_clock_and_nothing_that_was_lost(work, sql):
    work.put()
    _, old = work.claim()
    sql(f"UPDATE {work.source} SET lease_expiry = now() + interval '1 second' WHERE lease_token IS NOT NULL")
    sql("UPDATE wh_streams SET lease_expiry = now() + interval '1 second' WHERE lease_token IS NOT NULL")

    assert old.renew(LEASE) >= 1
    assert work.claim()[0] == []
    held = f"SELECT lease_expiry FROM {work.source} UNION SELECT lease_expiry FROM wh_streams"
    (left,) = sql(f"SELECT extract(epoch FROM max(lease_expiry) - clock_timestamp()) AS s FROM ({held}) AS leases")
    assert 20 < left["s"] <= 30

    work.leases_lapse()
    work.claim()
    assert old.renew(LEASE) == 0


def test_claimers_hold_different_streams_at_once_and_one_stream_is_held_by_one(work):
    for stream in "ab":
        for n in range(2):
            work.put(f"{stream}{n}", stream=stream)

    first, _ = work.claim(limit=1)
    second, _ = work.claim()
    third, _ = work.claim()

    assert len({row.stream_id for row in first}) == 1
    assert len({row.stream_id for row in second}) == 1
    assert {row.stream_id for row in first}.isdisjoint({row.stream_id for row in second})
    assert third == []


def test_a_stream_longer_than_its_share_of_a_claim_is_drained_to_its_end_in_order(work, configure):
    configure(CLAIM_PER_STREAM=3, CLAIM_BATCH=5)
    for n in range(11):
        work.put(n, stream="s")
        work.put(100 + n)
    work.drain()

    assert [payload for payload in work.ran if payload < 100] == list(range(11))
    assert sorted(work.ran) == [*range(11), *range(100, 111)]


def test_a_source_that_does_not_exist_is_refused_by_name_and_leaves_no_note_behind(configure, tmp_path):
    configure(RUN_DIR=tmp_path)
    with pytest.raises(ValueError, match="wh_nothing"):
        drain("wh_nothing")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db(transaction=True)
def test_one_lost_claim_in_a_group_leaves_no_effect_of_it_and_the_others_run_again_alone(work, configure, sql, effects):
    configure(GROUP_MS=5_000)  # one group: streams that an earlier one has emptied could be taken over too
    ids = [work.put(n) for n in range(5)]
    taken = []

    def take_one_over():
        work.leases_lapse()
        taken.extend(row.message_id for row in work.claim(limit=1)[0])

    def write(run):
        sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
        if run.payload == 3 and not taken:
            at_once(take_one_over)

    work.does = write
    work.drain()

    (lost,) = taken
    left = ids.index(lost)
    assert sorted(effects()) == [str(n) for n in range(5) if n != left]
    assert [row[work.key] for row in work.rows()] == [lost]
    assert work.row(lost)["attempts"] == 1, "what the one who took it over was charged for the lapse, and no more"


@pytest.mark.django_db(transaction=True)
def test_a_run_that_takes_the_connection_with_it_is_charged_and_its_neighbours_are_not(work, sql, effects):
    ids = [work.put(n) for n in range(5)]

    def cut_at_three(run):
        sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
        if run.payload == 3 and run.number == 1:
            sql("SELECT pg_terminate_backend(pg_backend_pid())")

    work.does = cut_at_three
    work.drain()
    work.drain()
    row = work.row(ids[3])
    work.drain_for(1)

    assert (row["attempts"], row["releases"], row["suspect"], row["lease_token"]) == (1, 0, False, None)
    assert sorted(effects()) == ["0", "1", "2", "3", "4"]
    assert work.rows() == []
    assert list(DeliveryLogEntry.objects.values_list("message_id", "attempt", "outcome")) == [(ids[3], 1, "failure")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("at", ["claimed", "recorded"])
def test_b1_a_connection_that_goes_between_claim_and_commit_is_nobodys_attempt_and_work_goes_on(
    work, sql, effects, monkeypatch, at
):
    """The database ends the session just before the group is recorded, or before anything has run."""
    from queues.drainer import batch, recording

    for n in range(3):
        work.put(n)
    work.does = lambda run: sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
    place, name = (recording, "write") if at == "recorded" else (batch, "bodies")
    whole, cut = getattr(place, name), threading.Event()

    def cut_once(*arguments):
        if not cut.is_set():
            cut.set()
            with pytest.raises(OperationalError):
                sql("SELECT pg_terminate_backend(pg_backend_pid())")
        return whole(*arguments)

    monkeypatch.setattr(place, name, cut_once)
    for _ in range(2):
        with suppress(OperationalError):
            work.drain()

    assert cut.is_set()
    assert sorted(effects()) == ["0", "1", "2"]
    assert work.rows() == []
    assert not DeadLetter.objects.exists()
    assert "failure" not in DeliveryLogEntry.objects.values_list("outcome", flat=True)
