"""Regions of a page: what is slow or broken is missing alone, and its time limit ends with it."""

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from structlog.testing import capture_logs

from deadletters.conf import Conf, conf
from deadletters.models import DeadLetter, Note
from deadletters.queries import regions
from deadletters.queries.regions import Region, Trouble
from queues.words.errors import InvalidSetting
from tests.factories import a_letter

IN_AND_OUT = pytest.mark.parametrize("in_transaction", [False, True], ids=["autocommit", "atomic requests"])


@pytest.fixture
def limit(settings, transactional_db):
    """Let regions take a tenth of a second."""
    settings.DEADLETTERS = {"REGION_SECONDS": 0.1}


def ask(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def asleep():
    return ask("SELECT pg_sleep(30)")


@pytest.fixture
def request_of(request):
    """Run a function as a request does: with or without a transaction around it."""

    def run(in_transaction, view):
        if not in_transaction:
            return view()
        with transaction.atomic():
            return view()

    return run


@IN_AND_OUT
def test_a_slow_region_is_missing_alone_and_the_log_names_it(limit, request_of, in_transaction):
    a_letter()

    def view():
        with regions.reading() as read:
            return [
                read("before", lambda: ask("SELECT count(*) FROM wh_dead_letters")),
                read("slow", asleep),
                read("after", lambda: ask("SELECT count(*) FROM wh_dead_letters")),
            ]

    with capture_logs() as logged:
        before, slow, after = request_of(in_transaction, view)
    assert (before.value, after.value) == (1, 1)
    assert slow == Region(name="slow", value=None, trouble=Trouble.SLOW)
    assert [(line["event"], line["region"]) for line in logged] == [("region_took_too_long", "slow")]


@IN_AND_OUT
def test_a_region_that_waits_for_a_lock_is_missing_alone(limit, request_of, in_transaction):
    connection.ensure_connection()
    with psycopg.connect(connection.connection.info.dsn, password=connection.settings_dict["PASSWORD"]) as other:
        other.execute("LOCK TABLE notes IN ACCESS EXCLUSIVE MODE")

        def view():
            with regions.reading() as read:
                return read("notes", Note.objects.count), read("letters", DeadLetter.objects.count)

        notes, letters = request_of(in_transaction, view)
    assert notes.trouble is Trouble.SLOW
    assert letters.trouble is None


@IN_AND_OUT
def test_a_statement_that_fails_breaks_its_region_only_and_the_log_has_no_data(limit, request_of, in_transaction):
    def view():
        with regions.reading() as read:
            return read("broken", lambda: ask("SELECT 'hunter2'::uuid")), read("whole", lambda: ask("SELECT 1"))

    with capture_logs() as logged:
        broken, whole = request_of(in_transaction, view)
    assert broken.trouble is Trouble.BROKEN
    assert whole == Region(name="whole", value=1)
    assert [(line["event"], line["region"], line["sqlstate"]) for line in logged] == [
        ("region_not_read", "broken", "22P02")
    ]
    assert "hunter2" not in str(logged)


@IN_AND_OUT
@pytest.mark.parametrize("read", [lambda: ask("SELECT 1"), asleep], ids=["read", "slow"])
def test_the_limit_does_not_outlive_the_region(limit, request_of, in_transaction, read):
    """The session is the next client's behind a pool, and in a transaction of the request its rest is not limited."""
    jit = ask("SHOW jit")
    ask("SELECT set_config('statement_timeout', '7s', false) || set_config('jit', 'on', false)")
    try:

        def view():
            regions.load("one", read)
            return ask("SHOW statement_timeout"), ask("SHOW jit")

        within = request_of(in_transaction, view)
        assert within == ("7s", "on")
        assert (ask("SHOW statement_timeout"), ask("SHOW jit")) == within
    finally:
        ask(f"SELECT set_config('statement_timeout', '0', false) || set_config('jit', '{jit}', false)")


def test_the_limit_is_in_force_while_the_regions_are_read(limit):
    with regions.reading() as read:
        first = read("one", lambda: ask("SHOW statement_timeout"))
        read("slow", asleep)
        second = read("two", lambda: ask("SHOW statement_timeout"))

    assert (first.value, second.value) == ("100ms", "100ms")


@IN_AND_OUT
def test_nothing_that_a_region_writes_stays(limit, request_of, in_transaction):
    request_of(in_transaction, lambda: regions.load("writes", a_letter))

    assert ask("SELECT count(*) FROM wh_dead_letters") == 0


def test_what_the_request_wrote_before_its_regions_stays(limit):
    with transaction.atomic():
        a_letter()
        regions.load("slow", asleep)

    assert ask("SELECT count(*) FROM wh_dead_letters") == 1


def test_an_atomic_block_that_fails_within_a_region_does_not_break_the_next_one(limit):
    def blocks():
        with transaction.atomic(), transaction.atomic(savepoint=False):
            asleep()

    with transaction.atomic():
        with regions.reading() as read:
            slow, whole = read("slow", blocks), read("whole", lambda: ask("SELECT 1"))
        assert ask("SELECT 2") == 2
    assert (slow.trouble, whole.value) == (Trouble.SLOW, 1)


def test_many_quick_statements_end_with_the_time_of_the_region(limit, settings):
    settings.DEADLETTERS = {"REGION_SECONDS": 1}
    begun = []

    def read():
        while len(begun) < 400:
            begun.append(ask("SELECT pg_sleep(0.02)"))

    assert regions.load("many", read).trouble is Trouble.SLOW
    assert 1 < len(begun) < 400


def test_a_fault_of_ours_is_one_of_the_page_and_leaves_the_session_as_it_was(limit):
    def ours():
        with transaction.atomic(savepoint=False):
            return 1 // 0

    with pytest.raises(ZeroDivisionError):
        regions.load("ours", ours)

    assert ask("SHOW statement_timeout") == "0"
    with pytest.raises(DatabaseError):
        ask("SELECT 1/0")


def test_all_regions_of_a_page_cost_two_statements_more_than_what_they_read(limit, django_assert_num_queries):
    with transaction.atomic(), django_assert_num_queries(2 + 3), regions.reading() as read:
        for name in ("a", "b", "c"):
            read(name, lambda: ask("SELECT 1"))


@pytest.mark.parametrize("seconds", [0, -1, 61, "2", None, True])
def test_a_limit_that_means_nothing_is_refused_by_name(seconds):
    with pytest.raises(InvalidSetting, match=r"^REGION_SECONDS .* at most 60"):
        Conf(region_seconds=seconds)


@pytest.mark.parametrize("paths", ["/srv/", [""], [1], ["x"] * 101, None])
def test_paths_that_mean_nothing_are_refused_by_name(paths):
    with pytest.raises(InvalidSetting, match=r"^OWN_CODE .* none empty"):
        Conf(own_code=paths)


def test_a_setting_that_is_not_known_is_refused_by_name(settings):
    settings.DEADLETTERS = {"REGION_SECOND": 2}

    with pytest.raises(InvalidSetting, match=r"^REGION_SECOND .*REGION_SECONDS"):
        conf()
