"""Deadlines: whatever a request waits for ends with its time, and its limit ends with it."""

from time import monotonic

import pytest
from django.db import DatabaseError, connection, transaction

from deadletters.models import Note
from deadletters.queries import deadlines, regions
from deadletters.queries.deadlines import TookTooLong, in_pieces, is_over, limited, of_request, patient
from deadletters.queries.regions import Trouble
from tests.factories import a_letter
from tests.locking import locked

pytestmark = pytest.mark.django_db(transaction=True)

IN_AND_OUT = pytest.mark.parametrize("in_transaction", [False, True], ids=["autocommit", "atomic requests"])
SHORT = 0.1


def ask(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def asleep():
    return ask("SELECT pg_sleep(30)")


def settings_of_the_session():
    return ask("SHOW statement_timeout"), ask("SHOW lock_timeout"), ask("SHOW jit")


def run(in_transaction, view):
    """Run a function as a request does: with or without a transaction around it."""
    if not in_transaction:
        return view()
    with transaction.atomic():
        return view()


@pytest.fixture
def told():
    """Settings of the session that are not the usual ones."""
    names = ("statement_timeout", "lock_timeout", "jit")
    usual = [ask(f"SHOW {name}") for name in names]
    for name, value in zip(names, ("7s", "8s", "on"), strict=True):
        ask(f"SELECT set_config('{name}', '{value}', false)")
    yield ("7s", "8s", "on")
    for name, value in zip(names, usual, strict=True):
        ask(f"SELECT set_config('{name}', '{value}', false)")


@IN_AND_OUT
def test_what_takes_too_long_ends_writes_nothing_and_leaves_the_session_as_it_was(told, in_transaction):
    def late():
        a_letter()
        asleep()

    def view():
        with limited(SHORT):
            late()

    with pytest.raises(DatabaseError) as raised:
        run(in_transaction, view)
    assert is_over(raised.value)
    assert ask("SELECT count(*) FROM wh_dead_letters") == 0
    assert settings_of_the_session() == told


@IN_AND_OUT
def test_what_was_in_time_stays_and_its_limit_does_not(told, in_transaction):
    def view():
        with limited(3):
            a_letter()
            within = ask("SHOW statement_timeout")
        return within, settings_of_the_session()

    within, after = run(in_transaction, view)
    assert within not in ("7s", "0")
    assert after == told
    assert ask("SELECT count(*) FROM wh_dead_letters") == 1
    assert settings_of_the_session() == told


@IN_AND_OUT
def test_many_quick_statements_end_with_the_time(in_transaction):
    begun = []

    def many():
        while len(begun) < 400:
            begun.append(ask("SELECT pg_sleep(0.02)"))

    def view():
        with pytest.raises(DatabaseError) as raised, limited(1):
            many()
        assert is_over(raised.value)

    run(in_transaction, view)
    assert 1 < len(begun) < 400


@IN_AND_OUT
def test_a_time_that_is_over_before_a_statement_begins_is_said_as_such(told, monkeypatch, in_transaction):
    def view():
        with limited(20):
            a_letter()
            monkeypatch.setattr(deadlines, "monotonic", lambda: monotonic() + 30)
            ask("SELECT 1")

    with pytest.raises(TookTooLong):
        run(in_transaction, view)
    assert ask("SELECT count(*) FROM wh_dead_letters") == 0
    assert settings_of_the_session() == told


def test_a_statement_that_begins_late_is_told_what_is_left(monkeypatch):
    monkeypatch.setattr(deadlines, "GRACE", 1)
    with limited(20):
        first = ask("SELECT current_setting('statement_timeout')::interval > '19 s'")
        ask("SELECT pg_sleep(0.2)")
        later = ask("SELECT current_setting('statement_timeout')::interval < '19.9 s'")

    assert (first, later) == (True, True)


def test_regions_get_what_is_left_of_the_time_around_them():
    with limited(SHORT), regions.reading(30) as read:
        slow, late = read("slow", asleep), read("late", lambda: ask("SELECT 1"))

    assert (slow.trouble, late.trouble) == (Trouble.SLOW, Trouble.SLOW)


def test_a_region_is_told_its_own_time_again_after_one_that_was_told_less(monkeypatch):
    monkeypatch.setattr(deadlines, "GRACE", 1)
    with regions.reading(20) as read:
        read("long", lambda: [ask("SELECT pg_sleep(0.1)") for _ in range(2)])
        second = read("second", lambda: ask("SHOW statement_timeout"))

    assert second.value == "20s"


def test_what_follows_the_regions_of_a_request_has_their_limit():
    with of_request(20):
        ask("SELECT 1")
        regions.load("one", lambda: ask("SELECT 1"), seconds=2)
        assert ask("SHOW statement_timeout") == "2s"


def test_what_a_request_reads_in_regions_costs_one_statement_more(django_assert_num_queries):
    with transaction.atomic(), django_assert_num_queries(1 + 2), of_request(20), regions.reading() as read:
        read("one", lambda: ask("SELECT 1"))
        read("two", lambda: ask("SELECT 2"))


@IN_AND_OUT
def test_what_a_request_writes_before_a_slow_region_stays(told, in_transaction):
    def view():
        with of_request(20):
            a_letter()
            return regions.load("slow", asleep, seconds=SHORT)

    assert run(in_transaction, view).trouble is Trouble.SLOW
    assert ask("SELECT count(*) FROM wh_dead_letters") == 1
    assert settings_of_the_session() == told


@IN_AND_OUT
def test_a_request_that_takes_too_long_writes_nothing(told, in_transaction):
    def late():
        a_letter()
        asleep()

    def view():
        with pytest.raises(DatabaseError) as raised, of_request(SHORT):
            late()
        return raised.value

    assert is_over(run(in_transaction, view))
    assert ask("SELECT count(*) FROM wh_dead_letters") == 0
    assert settings_of_the_session() == told


@IN_AND_OUT
def test_each_statement_of_what_acts_ends_in_each_of_its_transactions(told, in_transaction):
    def view():
        with patient(SHORT):
            with transaction.atomic():
                a_letter()
            with pytest.raises(DatabaseError) as in_a_transaction, transaction.atomic():
                asleep()
            with pytest.raises(DatabaseError) as alone, transaction.atomic() if in_transaction else limited(30):
                asleep()
        return [is_over(raised.value) for raised in (in_a_transaction, alone)]

    assert run(in_transaction, view) == [True, True]
    assert ask("SELECT count(*) FROM wh_dead_letters") == 1, "what was done before it stays"
    assert settings_of_the_session() == told


def test_a_commit_ends_too_that_checks_what_somebody_else_holds():
    letter = a_letter()
    with locked("wh_dead_letters"), pytest.raises(DatabaseError) as raised, patient(SHORT), transaction.atomic():
        Note.objects.create(dead_letter_id=letter.pk, text="x", author="olga")

    assert is_over(raised.value)
    assert not Note.objects.exists()


def test_a_statement_outside_of_transactions_ends_too(told):
    with patient(SHORT):
        with pytest.raises(DatabaseError) as raised:
            asleep()
        assert ask("SELECT 5") == 5

    assert is_over(raised.value)
    assert settings_of_the_session() == told


def test_regions_of_what_acts_have_their_own_time():
    with patient(30), transaction.atomic():
        a_letter()
        slow = regions.load("slow", asleep, seconds=SHORT)
        told = regions.load("told", lambda: ask("SHOW statement_timeout"), seconds=2)

    assert (slow.trouble, told.value) == (Trouble.SLOW, "2s")
    assert ask("SELECT count(*) FROM wh_dead_letters") == 1


def test_each_piece_of_a_stream_has_its_time_and_one_that_is_late_ends_it():
    def pieces():
        yield ask("SELECT 'one'")
        yield ask("SELECT 'two'")
        yield asleep()

    stream = in_pieces(pieces(), 1)
    assert (next(stream), next(stream)) == ("one", "two")
    with pytest.raises(DatabaseError) as raised:
        next(stream)
    assert is_over(raised.value)
    assert list(in_pieces(iter([1, 2]), 1)) == [1, 2]


def test_another_fault_of_the_database_is_none_of_time():
    with pytest.raises(DatabaseError) as raised, limited(5):
        ask("SELECT 'x'::uuid")

    assert not is_over(raised.value)
