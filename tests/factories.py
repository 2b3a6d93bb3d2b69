"""Rows as the engine writes them, by the state that a test wants."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import Group, User
from django.db import connection

from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterSubject,
    ItemState,
    RecoveryItem,
    RecoveryRun,
    RecoveryStatus,
    RunKind,
    RunState,
)

PASSWORD = "correct horse battery"
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
_minutes = itertools.count()


def a_user(name: str, group: str | None = None, **fields: Any) -> User:
    """Make a user, in one of the product's groups."""
    user = User.objects.create_user(name, password=PASSWORD, **fields)
    if group:
        user.groups.add(Group.objects.get(name=group))
    return user


def a_letter(
    *,
    payload: str = '{"order_id": "42"}',
    metadata: str = "{}",
    subjects: Sequence[tuple[str, str]] = (),
    error: str | None = "ValueError: no such order",
    cause: str = "budget_spent",
    status: RecoveryStatus = RecoveryStatus.PENDING,
    actor: str = "olga",
    last_reported: str | None = None,
    **fields: Any,
) -> DeadLetter:
    """Make a dead letter with its deaths and subjects; a recovering or recovered one was sent by `actor`.

    `payload` and `metadata` are JSON texts, so that a test chooses every character.
    """
    died_at = fields.pop("dead_lettered_at", NOON + timedelta(minutes=next(_minutes)))
    values = {
        "source_table": "wh_inbox",
        "source_id": uuid4(),
        "message_type": "shop.PlaceOrder",
        "failure_reason": 99,
        "attempts_when_dlq": 3,
        "delays_when_dlq": 0,
        "generation": "build-1",
        "deaths": 1,
        **fields,
    }
    if status == RecoveryStatus.RECOVERED:
        values["recovered_at"] = died_at + timedelta(minutes=2)
    if status in (RecoveryStatus.RECOVERING, RecoveryStatus.RECOVERED):
        values["last_recovery_at"] = died_at + timedelta(minutes=1)
    letter_id = values.pop("dead_letter_id", uuid4())
    error_line = None if error is None else error.strip().partition("\n")[0][:300]
    DeadLetter.objects.create(
        dead_letter_id=letter_id,
        dead_lettered_at=died_at,
        first_dead_lettered_at=died_at,
        error_text=error,
        error_line=error_line,
        cause=cause,
        recovery_status=status,
        envelope={},
        **values,
    )
    _store_bodies(letter_id, payload, metadata)
    letter = DeadLetter.objects.get(pk=letter_id)
    _add_deaths(letter, last_reported, actor)
    _add_subjects(letter, subjects)
    return letter


def _store_bodies(letter_id: UUID, payload: str, metadata: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE wh_dead_letters SET envelope = jsonb_build_object('event_data', %s::jsonb), metadata = %s::jsonb"
            " WHERE dead_letter_id = %s",
            [payload, metadata, letter_id],
        )


def _add_deaths(letter: DeadLetter, last_reported: str | None, actor: str) -> None:
    was_sent = letter.last_recovery_at is not None
    for number in range(1, letter.deaths + 1):
        is_latest = number == letter.deaths
        DeadLetterDeath.objects.create(
            dead_letter=letter,
            number=number,
            dead_lettered_at=letter.dead_lettered_at - timedelta(hours=letter.deaths - number),
            generation=letter.generation,
            cause=letter.cause or "operator",
            failure_reason=letter.failure_reason,
            error_text=letter.error_text,
            last_reported_error=last_reported if is_latest else None,
            attempts=letter.attempts_when_dlq,
            recovery_sent_at=letter.last_recovery_at if is_latest and was_sent else None,
            recovery_actor=actor if is_latest and was_sent else None,
            verdict="recovered" if is_latest and letter.recovered_at else None,
            verdict_at=letter.recovered_at if is_latest else None,
        )


def _add_subjects(letter: DeadLetter, subjects: Sequence[tuple[str, str]]) -> None:
    for position, (kind, identity) in enumerate(subjects):
        with connection.cursor() as cursor:
            cursor.execute("SELECT dead_letter_subject_key(%s, %s)", [kind, identity])
            key = cursor.fetchone()[0]
        DeadLetterSubject.objects.create(dead_letter=letter, position=position, type=kind, id=identity, subject_key=key)


def a_run(letters: Sequence[DeadLetter] = (), *, states: Sequence[ItemState] = (), **fields: Any) -> RecoveryRun:
    """Make a recovery run that is ready to start, with the letters as its items; `states`: of the first of them."""
    made_at = fields.pop("created_at", NOON + timedelta(minutes=next(_minutes)))
    values = {
        "kind": RunKind.PERSON,
        "state": RunState.READY,
        "scope": {"letters": [str(letter.pk) for letter in letters]},
        "scope_words": f"{len(letters)} picked letters",
        "plan": {},
        "actor": "olga",
        "frozen_at": made_at,
        "frozen_count": len(letters),
        **fields,
    }
    if values["state"] in (RunState.FINISHED, RunState.STOPPED):
        values.setdefault("finished_at", made_at + timedelta(minutes=5))
    if values["state"] == RunState.FREEZING:
        values |= {"frozen_at": None, "frozen_count": None}
    run = RecoveryRun.objects.create(run_id=uuid4(), created_at=made_at, **values)
    for place, letter in enumerate(letters):
        an_item(run, letter, place, states[place] if place < len(states) else ItemState.WAITING)
    return RecoveryRun.objects.get(pk=run.pk)


def an_item(
    run: RecoveryRun, letter: DeadLetter, place: int, state: ItemState = ItemState.WAITING, **fields: Any
) -> RecoveryItem:
    """Add a letter to a run, with the times that its state has."""
    was_sent = state not in (ItemState.WAITING, ItemState.SKIPPED)
    values = {
        "life": letter.life,
        "row_version": letter.row_version,
        "stream_id": letter.stream_id,
        "sent_at": run.created_at if was_sent else None,
        "deadline_at": run.created_at + timedelta(hours=1) if was_sent else None,
        "ended_at": None if state in (ItemState.WAITING, ItemState.SENT) else run.created_at,
        **fields,
    }
    return RecoveryItem.objects.create(
        item_id=uuid4(), run=run, dead_letter_id=letter.pk, place=place, state=state, **values
    )
