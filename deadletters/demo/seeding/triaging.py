"""Triage of made-up groups, as a team would have left it."""

from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from django.db.models.functions import Now

from deadletters.demo.seeding.loading import BUILDS
from deadletters.models import FailureGroup, GroupFingerprint, GroupState, Note

PEOPLE = ("olga", "tomasz", "mei", "Zoë", "amara")
TOUCHED_OF_100 = 45


def triage(seed: int) -> int:
    """Give part of the groups that nobody touched an owner, a state, a ticket, a runbook and notes.

    Which ones and what follows from the seed and their fingerprints; returns how many.
    """
    touched = 0
    known = GroupFingerprint.objects.filter(group__row_version=1, group__owner=None).order_by("fingerprint")
    for group_id, fingerprint in known.values_list("group_id", "fingerprint"):
        drawn = int(sha256(f"{seed}:{fingerprint}".encode()).hexdigest()[:12], 16)
        if drawn % 100 < TOUCHED_OF_100:
            FailureGroup.objects.filter(pk=group_id).update(**_triaged(drawn), row_version=2)
            touched += 1
            if drawn % 3 == 0:
                _note(group_id, drawn)
    return touched


def _triaged(drawn: int) -> dict[str, object]:
    states = (GroupState.ONGOING, GroupState.ONGOING, GroupState.HELD, GroupState.FIXED, GroupState.RESOLVED,
              GroupState.REGRESSED)  # fmt: skip
    state = states[drawn // 100 % len(states)]
    number = drawn // 1_000 % 900
    return {
        "state": state,
        "state_at": Now() - timedelta(hours=number % 200),
        "owner": PEOPLE[drawn // 7 % len(PEOPLE)] if drawn % 5 else None,
        "ticket": f"SHOP-{100 + number}" if drawn % 2 else None,
        "runbook": f"https://wiki.example/runbooks/{number}" if drawn % 4 == 0 else None,
        "fixed_in_generation": BUILDS[-1] if state is GroupState.FIXED else None,
        "quiet_until": Now() + timedelta(days=1 + number % 5) if drawn % 11 == 0 else None,
    }


def _note(group_id: UUID, drawn: int) -> None:
    texts = ("The bank is told.", "Comes with every deploy of the label printer.", "Only guests, never customers?")
    Note.objects.create(group_id=group_id, text=texts[drawn % len(texts)], author=PEOPLE[drawn % len(PEOPLE)])
