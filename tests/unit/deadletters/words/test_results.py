"""What recoveries came to, by how they were done."""

from datetime import UTC, datetime, timedelta

from deadletters.words.results import Try, results

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def a_try(verb="person", by="olga", hours=0, **ends):
    return Try(verb=verb, by=by, at=NOON + timedelta(hours=hours), ends=ends)


def test_what_handled_the_largest_share_comes_first():
    found = results([a_try("schedule", recovered=1, no_answer=1), a_try("person", recovered=9, failed_again=1)])

    assert [(each.verb, each.share) for each in found] == [("person", 90), ("schedule", 50)]


def test_only_letters_with_an_answer_count():
    (found,) = results([a_try(recovered=1, skipped=50, waiting=7, sent=3), a_try(skipped=4)])

    assert (found.times, found.answered, found.share) == (1, 1, 100)


def test_nearly_all_is_not_said_to_be_all():
    (found,) = results([a_try(recovered=999, failed_differently=1)])

    assert found.share == 99


def test_the_last_to_try_is_named_in_whatever_order_they_are_given():
    (found,) = results([a_try(by="vera", hours=2, failed_again=1), a_try(by="olga", hours=1, recovered=1)])

    assert (found.by, found.at, found.times) == ("vera", NOON + timedelta(hours=2), 2)


def test_nothing_tried_is_nothing_told():
    assert results([]) == []
