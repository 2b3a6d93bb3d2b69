"""Every status and event: the SQL does what `words/policies.TRANSITIONS` says, and says so when it is nothing."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from deadletters.models import DeadLetter
from deadletters.words.policies import TRANSITIONS, Disposition, Event, Status, next_disposition, next_status
from tests.db.rows import KEY, write_row
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

DISPOSED = {Event.RETRY_NOW: 1, Event.HOLD: 2, Event.RELEASE: 0, Event.GIVE_UP: 3, Event.REOPEN: 0}
SHARED = {
    # One disposition, two words for it: what is given up is reopened, anything else is released.
    (Status.PERMANENTLY_FAILED, Event.RELEASE): Event.REOPEN,
    **{(status, Event.REOPEN): Event.RELEASE for status in Status if status != Status.PERMANENTLY_FAILED},
}


@pytest.fixture
def happens(sql):
    """Let an event happen to a letter by its SQL function; return whether the function says that it did."""

    def disposed(letter, event):
        (row,) = sql("SELECT dispose_dead_letter(%s, %s) AS told", letter.pk, DISPOSED[event])
        return row["told"] == ""

    def sent(letter, event):
        (row,) = sql("SELECT recover_dead_letter(%s, 'ann') AS told", letter.pk)
        return row["told"] == "sent"

    def handled(letter, event):
        sql("SELECT settle_recovered(ARRAY[%s::uuid])", letter.pk)
        return True

    def died(letter, event):
        source_id = write_row("wh_inbox", **{KEY["wh_inbox"]: letter.source_id}, dead_letter_id=letter.pk)
        (row,) = sql(
            "SELECT move_to_dead_letters(gen_random_uuid(), 'wh_inbox', %s, 2, 'x', NULL, 'b', p_cause => 'operator')"
            " AS id",
            source_id,
        )
        return row["id"] == letter.pk

    def unanswered(letter, event):
        (row,) = sql("SELECT hold_lost_letters(10, '5 minutes') AS n")
        return row["n"] == 1

    def by_policy(letter, event):
        decision = {"dead_letter_id": str(letter.pk), "row_version": letter.row_version}
        decision["decision"] = "hold" if event is Event.POLICY_HOLD else "give_up"
        return bool(sql("SELECT * FROM write_recovery_decisions(%s)", json.dumps([decision])))

    does = dict.fromkeys(DISPOSED, disposed) | dict.fromkeys((Event.POLICY_HOLD, Event.POLICY_GIVE_UP), by_policy)
    does |= {Event.SENT: sent, Event.HANDLED: handled, Event.DIED: died, Event.NO_ANSWER: unanswered}
    return lambda letter, event: does[event](letter, event)


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("status", Status)
def test_an_event_leads_where_the_table_says_and_an_illegal_one_changes_nothing(status, event, happens):
    letter = a_letter(status=status, dead_lettered_at=timezone.now() - timedelta(days=1))
    before = DeadLetter.objects.filter(pk=letter.pk).values().get()

    told = happens(letter, event)

    event = SHARED.get((status, event), event)
    follows = next_status(status, event)
    after = DeadLetter.objects.filter(pk=letter.pk).values().get()
    assert told == (follows is not None)
    if follows is None:
        assert after == before
    else:
        assert after["recovery_status"] == follows
        assert after["operator_disposition"] == next_disposition(Disposition.NONE, event)


def test_every_rule_of_the_table_was_tried():
    assert {event for _status, event in TRANSITIONS} == set(Event)
