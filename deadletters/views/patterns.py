"""Every component in every state on one page, for those who build pages; only with DEBUG."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from deadletters.models import (
    DeadLetter,
    DeadLetterSubject,
    FailureGroup,
    GroupState,
    RecoveryRun,
    RecoveryStatus,
    RunState,
)
from deadletters.queries import trends
from deadletters.queries.letterrows import Row
from deadletters.queries.regions import Region, Trouble
from deadletters.words.charts import Bars, Bucket, Mark, bars
from deadletters.words.filters import ITEM_STATES, LIVE_STATES, LetterFilter


@require_safe
def patterns(request: HttpRequest) -> HttpResponse:
    """Show the components; 404 without DEBUG."""
    if not settings.DEBUG:
        raise Http404
    now = timezone.now()
    span = trends.SPANS["24h"]
    hours = [0, 1, 3, 2, 8, 5, 0, 0, 13, 21, 8, 3] * 2
    context = {
        "statuses": RecoveryStatus.values,
        "groups": [FailureGroup(state=state) for state in GroupState],
        "items": {state: 60 // (place + 1) for place, state in enumerate(ITEM_STATES)},
        "runs": [RecoveryRun(state=state) for state in RunState],
        "live_states": tuple(LIVE_STATES),
        "hours": hours,
        "numbers": {status: 40**status for status in RecoveryStatus.values},
        "trend": _chart(span, hours, now),
        "span": span,
        "spans": tuple(trends.SPANS.values()),
        "now": now,
        "filters": LetterFilter(status="open", type="shop.PlaceOrder"),
        "rows": [_row(status, place, now) for place, status in enumerate(RecoveryStatus.values)],
        "regions": [Region(name="sources", value=None, trouble=trouble) for trouble in Trouble],
    }
    return render(request, "deadletters/patterns.html", context)


def _row(status: int, place: int, now: datetime) -> Row:
    letter = DeadLetter(
        dead_letter_id=uuid4(),
        recovery_status=status,
        message_type="shop.PlaceOrder",
        error_line=("ValueError: order 42 has no lines", None, "")[place % 3],
        failure_reason=99,
        source_table="wh_outbox",
        destination="warehouse",
        attempts_when_dlq=10,
        deaths=1 + place,
        operator_disposition=2 * (place % 2),
        owner=("olga", None)[place % 2],
        dead_lettered_at=now - timedelta(hours=30**place),
        row_version=1,
    )
    return Row(letter=letter, subject=DeadLetterSubject(type="order", id=str(40 + place)), more_subjects=place)


def _chart(span: trends.Span, hours: Sequence[int], now: datetime) -> Bars:
    axis = span.axis(now)
    counts = [{f"build-{place // 10}": n, f"build-{place // 8}": n // 2} for place, n in enumerate(hours)]
    buckets = [Bucket(at=axis.at(place), counts=count) for place, count in enumerate(counts)]
    marks = [Mark(at=axis.at(10), label="build-1")]
    return bars(buckets, axis, width=trends.WIDTH, height=trends.HEIGHT, marks=marks)
