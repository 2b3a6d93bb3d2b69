"""Every component in every state on one page, for those who build pages; only with DEBUG."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from deadletters.models import RecoveryStatus
from deadletters.queries import trends
from deadletters.queries.previews import Unsendable
from deadletters.queries.regions import Region, Trouble
from deadletters.recovery.preview import Preview
from deadletters.views import patternstates as states
from deadletters.views.justdone import JustDone
from deadletters.views.planforms import form_of
from deadletters.words.filters import ITEM_STATES, LIVE_STATES, LetterFilter
from deadletters.words.plans import Plan
from deadletters.words.progress import Progress


@require_safe
def patterns(request: HttpRequest) -> HttpResponse:
    """Show the components; 404 without DEBUG."""
    if not settings.DEBUG:
        raise Http404
    now = timezone.now()
    context = {"now": now, **_of_lists(now), **_of_groups(request, now), **_of_runs(now), **_of_overview(now)}
    return render(request, "deadletters/patterns.html", context)


def _of_lists(now: datetime) -> dict[str, Any]:
    rows = states.letter_rows(now)
    return {
        "perms": states.RIGHTS,
        "no_rights": states.NO_RIGHTS,
        "statuses": RecoveryStatus.values,
        "live_states": tuple(LIVE_STATES),
        "numbers": {status: 40**status for status in RecoveryStatus.values},
        "filters": LetterFilter(status="open", type="shop.PlaceOrder"),
        "everything": LetterFilter(),
        "rows": rows,
        "stay": JustDone(ids=frozenset({rows[2].letter.pk}), said="Held by you just now."),
        "totals": {name: Region(name="letters_count", value=total) for name, total in states.TOTALS.items()},
        "uncounted": Region(name="letters_count", value=None, trouble=Trouble.SLOW),
        "suggested": states.SUGGESTED,
        "regions": [Region(name="sources", value=None, trouble=trouble) for trouble in Trouble],
        "notes": states.notes(now),
        "lost": states.unsent(),
        "timelines": states.timelines(now),
        "long": states.LONG * 3,
    }


def _of_groups(request: HttpRequest, now: datetime) -> dict[str, Any]:
    groups = states.groups(now)
    return {
        "groups": groups,
        "group_page": SimpleNamespace(rows=states.group_rows(now)),
        "menus": {
            "nobody's": (groups[1], 312, 0),
            "yours, held, quiet and resolved": (states.held_group(now, request.user.get_username()), 0, 316),
        },
        "hours": states.HOURS,
        "trend": states.chart(states.HOURS, now),
        "span": trends.SPANS["24h"],
        "spans": tuple(trends.SPANS.values()),
    }


def _of_runs(now: datetime) -> dict[str, Any]:
    waiting = Progress(state="ready", counts={"waiting": 60})
    return {
        "items": {state: 60 // (place + 1) for place, state in enumerate(ITEM_STATES)},
        "run_rows": states.run_rows(now),
        "plan": form_of(Plan()),
        "progress": waiting,
        "nothing_waits": Progress(state="ready", counts={}),
        "previews": {
            "all go": _preview(now, changed=0, held=0),
            "some are held": _preview(now, changed=3, held=20),
            "not known yet": None,
        },
    }


def _of_overview(now: datetime) -> dict[str, Any]:
    asked = SimpleNamespace(span=trends.SPANS["24h"], since=now)
    return {"parts": states.parts(now), "asked": asked}


def _preview(now: datetime, *, changed: int, held: int) -> Preview:
    return Preview(
        sources=None,
        types=None,
        targets=None,
        ages=None,
        streams=None,
        unsendable=Unsendable(changed=changed, held=held),
        samples=None,
        risks=(),
        looked_at=None,
        now=now,
    )
