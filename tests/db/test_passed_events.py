"""Dead events of a perspective: recovered when applied, and what becomes of those that later ones have passed."""

import json

import pytest

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.store.recovery import Sent, recover
from queues import Terminal, append_event, send
from queues.models import InboxMessage, PerspectiveCursor
from queues.testing import drain
from queues.words.outcomes import Cause
from tests.db.projecting import PERSPECTIVES, UNREPRESENTABLE, cursor_of, versions

pytestmark = pytest.mark.django_db


def test_a_dead_event_is_recovered_when_it_is_applied(project):
    state = project(max_attempts=1)
    state["raises"][1] = ValueError("broken")
    event = append_event("a", "test.Happened", UNREPRESENTABLE)
    drain(PERSPECTIVES)

    letter = DeadLetter.objects.get()
    assert (letter.source_table, letter.perspective_name, letter.message_type) == (
        PERSPECTIVES, "totals", "test.Happened",
    )  # fmt: skip
    assert letter.cause == Cause.BUDGET_SPENT
    assert json.loads(letter.envelope)["event_id"] == str(event.event_id)

    state["raises"].clear()
    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERING
    drain(PERSPECTIVES)

    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERED
    assert [(m.payload, m.meta.life, m.meta.attempts) for m in state["applied"]] == [(UNREPRESENTABLE, 2, 1)]
    assert cursor_of("a").version == 1


def test_a_dead_event_that_later_ones_have_passed_is_not_called_recovered(project):
    state = project(after_death="continue")
    state["raises"][1] = Terminal("broken")
    for n in range(3):
        append_event("a", "test.Happened", n)
    drain(PERSPECTIVES)
    letter = DeadLetter.objects.get()
    state["raises"].clear()
    recover(letter.dead_letter_id, "ann")
    drain(PERSPECTIVES)

    letter.refresh_from_db()
    assert (letter.recovery_status, letter.deaths) == (RecoveryStatus.PENDING, 2)
    assert "totals is at version 3 of the stream; version 1 cannot be applied any more" in letter.error_text
    assert versions(state) == [2, 3]


def append_and_pass(state, *, dead, count=4):
    """Append events of which some die, and let the perspective pass them; then let nothing die any more."""
    for version in dead:
        state["raises"][version] = Terminal("broken")
    for n in range(count):
        append_event("a", "test.Happened", n)
    drain(PERSPECTIVES)
    state["raises"].clear()


def recover_version(version):
    letters = DeadLetter.objects.all()
    (letter,) = [letter for letter in letters if json.loads(letter.envelope)["event_data"] == version - 1]
    assert recover(letter.dead_letter_id, "ann") == "sent"
    drain(PERSPECTIVES)
    letter.refresh_from_db()
    return letter.recovery_status


def test_a_commutative_projection_applies_an_event_late_and_its_cursor_stays(project):
    state = project(after_death="continue", commutative=True)
    append_and_pass(state, dead=[2])

    assert recover_version(2) == RecoveryStatus.RECOVERED

    assert versions(state) == [1, 3, 4, 2]
    assert PerspectiveCursor.objects.get().version == 4


def test_a_rewind_empties_the_projection_and_applies_all_but_the_dead_in_order(project):
    rewound = []
    state = project(after_death="continue", rewind=rewound.append)
    append_and_pass(state, dead=[1, 3])
    stream = PerspectiveCursor.objects.get().stream_id

    assert recover_version(3) == RecoveryStatus.RECOVERED
    assert (rewound, versions(state)) == ([stream], [2, 4, 2, 3, 4])

    assert recover_version(1) == RecoveryStatus.RECOVERED
    assert (rewound, versions(state)[-4:]) == ([stream, stream], [1, 2, 3, 4])
    assert PerspectiveCursor.objects.get().version == 4


def test_a_rewind_that_fails_leaves_the_projection_as_it_was(project):
    def refuse(stream_id):
        send("test.Effect", "emptied")
        raise Terminal("not empty")

    state = project(after_death="continue", rewind=refuse)
    append_and_pass(state, dead=[1])
    effects = InboxMessage.objects.count()

    assert recover_version(1) == RecoveryStatus.PENDING

    assert versions(state) == [2, 3, 4]
    assert InboxMessage.objects.count() == effects


def test_a_perspective_waits_behind_its_dead_event_unless_told_otherwise(project):
    state = project()
    append_and_pass(state, dead=[2])
    assert versions(state) == [1]

    assert recover_version(2) == RecoveryStatus.RECOVERED

    assert versions(state) == [1, 2, 3, 4]
