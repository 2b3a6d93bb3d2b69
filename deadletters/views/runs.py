"""Recovery runs: their list, how one is prepared and started, and how it goes."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh, push_url

from deadletters.models import FailureGroup, RecoveryRun, RunKind, RunState
from deadletters.queries import filternames, groups, letters, runs, timeline
from deadletters.queries.regions import load, reading
from deadletters.recovery import runs as service
from deadletters.recovery import schedule
from deadletters.recovery.preview import Preview, preview
from deadletters.views import planforms, scopes, shell
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import filter_of, reason_of, takes
from deadletters.words import access
from deadletters.words.errors import BadChange, BadFilter, BadPlan, BadScope, NoSuchRun, StaleChange
from deadletters.words.filters import ITEM_STATES, RUN_KINDS, RUN_STATES, ItemFilter, RunFilter
from deadletters.words.plans import Plan
from deadletters.words.progress import Progress
from deadletters.words.scopes import Matching, fingerprint_in, scope_of
from queues import instances

INLINE = 2_000
"""Letters of a run up to which its preview is part of the page; above it comes after it."""

MAX_RISK_NAMES = 5
"""Names that a finding shows."""

DONE = {"pause": "Paused.", "resume": "Resumed.", "stop": "Stopped: nothing more is sent."}

MOVING = (RunState.RUNNING, RunState.PAUSED)
"""States in which letters of a run get their verdicts."""

CHANGES: Mapping[str, Callable[..., None]] = {
    "pause": service.pause,
    "resume": service.resume,
    "stop": service.stop,
}


@needs(access.VIEW)
@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Show a page of the runs; 400 with the reason for a filter that is not understood."""
    template = "_results.html" if wants_fragment(request) else "list.html"
    context: dict[str, Any] = {"now": timezone.now(), "states": tuple(RUN_STATES), "kinds": tuple(RUN_KINDS)}
    try:
        filters = filter_of(request, RunFilter)
    except BadFilter as exc:
        wrong = {"filters": RunFilter(), "typed": request.GET.dict(), "error": str(exc)}
        return _render(request, template, context | wrong, status=400)
    with reading() as read:
        region = read("runs", lambda: runs.page(filters))
        suspended = read("schedule", schedule.state)
        known = read("names", lambda: filternames.of(filters))
    context |= {"filters": filters, "typed": vars(filters), "region": region, "page": region.value}
    context |= {"named": known.value, "suspended": suspended, "schedule": suspended.value}
    if _is_poll(request, "results"):
        return _render(request, template, context)
    here = filters.query(after=str(filters.after or ""))
    return push_url(_render(request, template, context), f"{request.path}?{here}" if here else request.path)


@needs(access.RECOVER)
@require_POST
def prepare(request: HttpRequest) -> HttpResponse:
    """Freeze what is asked for as a new run and lead to it; 422 with the reason when nothing can be."""
    try:
        run_id = service.prepare(user=request.user, scope=scopes.scope_of(request.POST), reason=reason_of(request))
    except (BadScope, BadFilter) as exc:
        return _render(request, "refused.html", {"error": str(exc)}, status=422)
    return redirect("deadletters:run", run_id)


@needs(access.VIEW)
@require_safe
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Show one run: what it would do before its start, how it goes after it; by htmx a page of its letters."""
    try:
        found = runs.get(run_id)
        filters = filter_of(request, ItemFilter)
    except NoSuchRun:
        return _no_such_run(request)
    except BadFilter as exc:
        return _items_refused(request, found, str(exc))
    if not wants_fragment(request):
        return _page(request, found, filters=filters)
    response = _render(request, "_items.html", {"run": found, "now": timezone.now(), **_items(found, filters)})
    if _is_poll(request, "items"):
        return response
    here = filters.query(after=str(filters.after or ""))
    return push_url(response, f"{request.path}?{here}" if here else request.path)


def _items_refused(request: HttpRequest, found: RecoveryRun, error: str) -> HttpResponse:
    if not wants_fragment(request):
        return _page(request, found, status=400, filter_error=error)
    context = {"run": found, "filters": ItemFilter(), "filter_error": error}
    return _render(request, "_items.html", context, status=400)


def _is_poll(request: HttpRequest, element: str) -> bool:
    """Say whether a region renews itself: no step that a person took, so none for the browser's history."""
    return wants_fragment(request) and request.htmx.trigger == element  # type: ignore[attr-defined]


@needs(access.VIEW)
@require_safe
@takes("seen")
def live(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Return what changes by itself while a run goes on: its numbers, its state and what was done to it."""
    if not wants_fragment(request):
        return redirect("deadletters:run", run_id)
    try:
        context = _context(request, runs.get(run_id))
    except NoSuchRun:
        return _no_such_run(request)
    seen = request.GET.get("seen", "")
    if seen == context["seen"]:
        return HttpResponse(status=204)
    if seen.partition(".")[0] == RunState.FREEZING and context["stage"] != "freezing":
        return HttpResponseClientRefresh()  # another page from now on: what it would do, and how it is started
    return _live(request, context)


@needs(access.VIEW)
@require_safe
@takes()
def run_preview(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Return what a run that waits for its start would do; without htmx the whole page with it."""
    try:
        found = runs.get(run_id)
    except NoSuchRun:
        return _no_such_run(request)
    shown = preview(run_id)
    if wants_fragment(request):
        context = {
            **_context(request, found),
            "preview": shown,
            "faulty": _faulty(shown),
            "now": shown.now,
        }
        return _render(request, "_previewed.html", context)
    return _page(request, found, preview=shown)


@needs(access.RECOVER)
@require_POST
def start(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Start a run on the plan that was typed; 422 with it when it cannot be, 409 when somebody was first."""
    try:
        found = runs.get(run_id)
        service.start(
            user=request.user,
            run_id=run_id,
            plan=planforms.plan_of(request.POST),
            reason=reason_of(request),
            count=planforms.count_of(request.POST),
            row_version=_version(request),
        )
    except NoSuchRun:
        return _no_such_run(request)
    except BadPlan as exc:
        return _page(request, found, status=422, form=planforms.refused(request.POST, exc))
    except BadChange:
        return _page(
            request, runs.get(run_id), status=409, said=_("It was started or discarded before. Nothing changed.")
        )
    except StaleChange:
        said = _("Somebody changed it meanwhile. Nothing was started.")
        return _page(request, runs.get(run_id), status=409, form=planforms.refused(request.POST), said=said)
    messages.success(request, _("Started."))
    return redirect("deadletters:run", run_id)


@needs(access.RECOVER)
@require_POST
def change(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Pause, resume or stop a run; 409 with its fresh state when it is in another one by now."""
    act = CHANGES.get(request.POST.get("action", ""))
    if act is None:
        return HttpResponse(_("There is no such action."), status=400, content_type="text/plain")
    status, said = 200, _(DONE[request.POST["action"]])
    try:
        act(user=request.user, run_id=run_id, reason=reason_of(request))
    except NoSuchRun:
        return _no_such_run(request)
    except (BadChange, StaleChange):
        status, said = 409, _("It is in another state by now. Nothing was changed.")
    found = runs.get(run_id)
    if wants_fragment(request):
        return _live(request, {**_context(request, found), "said": said}, status=status)
    if status != 200:
        return _page(request, found, status=status, said=said)
    messages.success(request, said)
    return redirect("deadletters:run", run_id)


def _live(request: HttpRequest, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Return the changed regions; why letters ended only once the run has, since it is counted over all of them."""
    run = context["run"]
    if run.state in (RunState.STOPPED, RunState.FINISHED):
        context |= _whys(run)
    return _render(request, "_live.html", context, status=status)


def _version(request: HttpRequest) -> int | None:
    """Return the version that the person saw; None when the form does not say."""
    seen = request.POST.get("row_version", "")
    return int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else None


def _page(request: HttpRequest, found: RecoveryRun, *, status: int = 200, **more: Any) -> HttpResponse:
    filters = more.get("filters") or ItemFilter()
    context = {**_context(request, found), **_items(found, filters), **more}
    context["newcomers"] = load("newcomers of a run", lambda: runs.newcomers(found)).value if found.frozen_at else 0
    context |= _whys(found)
    if context["stage"] == "wizard" and "preview" not in more and (found.frozen_count or 0) <= INLINE:
        context["preview"] = preview(found.run_id)
    if "preview" in context:
        context["faulty"] = _faulty(context["preview"])
    return _render(request, "run.html", context, status=status)


def _context(request: HttpRequest, found: RecoveryRun) -> dict[str, Any]:
    now, plan = timezone.now(), runs.plan_of(found)
    counts = runs.totals(found.run_id)
    progress = Progress(
        state="starting" if found.state == RunState.READY and found.starts_at else found.state,
        counts=counts,
        wave=found.wave,
        canary=plan.canary if plan else 0,
        stop_reason=found.stop_reason,
    )
    elapsed = (now - found.started_at).total_seconds() if found.started_at else 0
    awaited = _awaited(found, progress)
    told = load("timeline of the run", lambda: timeline.of_run(found.run_id))
    return {
        "run": found,
        "group": _group(found),
        "plan": plan,
        "counts": counts,
        "progress": progress,
        "stage": _stage(found),
        "awaited": awaited,
        "left": None if awaited else progress.seconds_left(rate=plan.rate if plan else None, elapsed=elapsed),
        "form": planforms.form_of(plan or Plan()),
        "confirm_above": service.CONFIRM_ABOVE,
        "region": told,
        "retry": reverse("deadletters:run", args=[found.run_id]),
        "timeline": told.value,
        "timeline_title": _("What was done"),
        "audited": f"run={found.run_id}",
        "seen": ".".join(map(str, (found.state, found.wave, found.row_version, int(bool(awaited)), *counts.values()))),
        "again": _again(found),
        "commands": shell.of_run(request, found),
        "may_recover": request.user.has_perm(access.RECOVER),
        "now": now,
    }


def _group(found: RecoveryRun) -> FailureGroup | None:
    """Return the group that a run is of: by its id, or by the fingerprint that it was asked for."""
    if found.group_id:
        return groups.named([found.group_id]).get(found.group_id)
    fingerprint = fingerprint_in(found.scope)
    return groups.with_fingerprint(fingerprint) if fingerprint else None


def _stage(found: RecoveryRun) -> str:
    if found.state == RunState.FREEZING:
        return "freezing"
    return "wizard" if found.state == RunState.READY and found.starts_at is None else "progress"


def _whys(found: RecoveryRun) -> dict[str, Any]:
    return {"whys": runs.whys(found.run_id), "faults": runs.faults(found.run_id)}


def _faulty(shown: Preview) -> Mapping[str, FailureGroup]:
    """Return the groups of the fingerprints that a preview names."""
    return groups.with_fingerprints(
        name for risk in shown.risks if risk.key == "failing_now" for name in risk.names[:MAX_RISK_NAMES]
    )


def _awaited(found: RecoveryRun, progress: Progress) -> str:
    """Return the build that a replay's letters wait for, since no live worker runs it; empty when nothing waits so."""
    if found.kind != RunKind.REPLAY or not found.generation or not progress.waiting + progress.unanswered:
        return ""
    is_live = any(build.name == found.generation for build in instances.live_builds())
    return "" if is_live else found.generation


def _again(found: RecoveryRun) -> str:
    """Return the filter that a run was asked for, to ask for it again with what came since; empty for another scope."""
    try:
        scope = scope_of(found.scope)
    except (BadScope, BadFilter):
        return ""
    return scope.filters.query() if isinstance(scope, Matching) else ""


def _items(found: RecoveryRun, filters: ItemFilter) -> dict[str, Any]:
    page = runs.items(found.run_id, filters)
    region = load("letters of the run", lambda: letters.briefly(item.dead_letter_id for item in page.rows))
    known = region.value or {}
    return {
        "known": region,
        "filters": filters,
        "renews": filters.after is None and found.state in MOVING,
        "items": [(item, known.get(item.dead_letter_id)) for item in page.rows],
        "next": page.next,
        "item_states": ITEM_STATES,
    }


def _no_such_run(request: HttpRequest) -> HttpResponse:
    return no_such(request, "deadletters/runs/missing.html", _("There is no such run."))


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/runs/{template}", context, status=status)
