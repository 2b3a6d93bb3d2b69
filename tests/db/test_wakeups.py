"""Wake-ups are folded: many commits of one process put few tasks on the broker, and none is lost."""

import threading

import pytest
from django.db import transaction

from queues import send, wakeups
from queues.words.sources import INBOX, OUTBOX

LONG_MS = 3_600_000


@pytest.fixture
def fold(settings, monkeypatch):
    """Set the time within which wake-ups are folded, with none sent before."""

    def begin(milliseconds):
        settings.QUEUES = {**settings.QUEUES, "WAKEUP_FOLD_MS": milliseconds}
        monkeypatch.setattr(wakeups, "_fold", wakeups._Fold())
        return wakeups._fold

    yield begin
    for timer in wakeups._fold._waiting.values():
        timer.cancel()
        timer.join()


@pytest.fixture
def woken(monkeypatch):
    sources = []
    monkeypatch.setattr(
        "celery.app.base.Celery.send_task", lambda self, name, **options: sources.append(*options["args"])
    )
    return sources


@pytest.mark.django_db(transaction=True)
def test_the_first_of_many_commits_wakes_at_once_and_one_more_stands_for_the_rest(fold, woken):
    folding = fold(LONG_MS)
    for n in range(200):
        send("test.A", n)
    assert woken == [INBOX]

    folding.send_all()

    assert woken == [INBOX, INBOX]


def test_ten_thousand_wakeups_start_one_thread(fold, woken):
    fold(LONG_MS)
    before = threading.active_count()

    for _ in range(10_000):
        wakeups._fold.send(wakeups._drain_of(INBOX))

    assert threading.active_count() == before + 1
    assert woken == [INBOX]


def test_a_folded_wakeup_is_sent_when_its_time_has_passed(fold, monkeypatch):
    sent = [threading.Event(), threading.Event()]
    left = list(sent)
    monkeypatch.setattr("celery.app.base.Celery.send_task", lambda self, name, **options: left.pop(0).set())
    fold(50)

    wakeups._fold.send(wakeups._drain_of(INBOX))
    wakeups._fold.send(wakeups._drain_of(INBOX))

    assert all(event.wait(20) for event in sent)


def test_sources_are_folded_apart(fold, woken):
    fold(LONG_MS)

    for source in (INBOX, OUTBOX, INBOX, OUTBOX):
        wakeups._fold.send(wakeups._drain_of(source))

    assert woken == [INBOX, OUTBOX]


def test_a_fork_sends_its_own_wakeups_and_not_those_of_its_parent(fold, woken):
    fold(LONG_MS)
    for _ in range(2):
        wakeups._fold.send(wakeups._drain_of(INBOX))
    parents = wakeups._fold

    wakeups._unfold()
    wakeups._fold.send_all()
    assert woken == [INBOX]
    wakeups._fold.send(wakeups._drain_of(INBOX))

    assert woken == [INBOX, INBOX]
    parents.send_all()
    assert woken == [INBOX] * 3


@pytest.mark.django_db(transaction=True)
def test_nested_transactions_wake_when_the_outermost_commits(fold, woken):
    fold(0)
    with transaction.atomic():
        with transaction.atomic():
            send("test.A", 1)
        assert woken == []
        with transaction.atomic():
            send("test.A", 2)
        assert woken == []

    assert woken == [INBOX]


def test_a_time_below_nothing_is_refused():
    from queues.conf import Conf
    from queues.words.errors import InvalidSetting

    with pytest.raises(InvalidSetting, match="WAKEUP_FOLD_MS"):
        Conf(wakeup_fold_ms=-1)
