"""What is done to a group from its row of the list, and from the head of its page, in one step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _later
from django.views.decorators.http import require_POST, require_safe

from deadletters import triage
from deadletters.models import Disposition, FailureGroup, GroupState, RecoveryStatus
from deadletters.queries import grouprows, groups, regions, visits
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import read, takes
from deadletters.views.places import referring_page
from deadletters.words import access
from deadletters.words.errors import BadChange, BadNote, NoSuchGroup, StaleChange

QUIET = timedelta(hours=1)

Changes = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A change of a group in one step: its columns, of who asks and what is typed, and what is said once it is made."""

    changes: Callable[[str, str], Changes]
    said: Any


VERBS: Mapping[str, Verb] = {
    "assign_me": Verb(changes=lambda who, _typed: {"owner": who}, said=_later("It is yours now.")),
    "unassign": Verb(changes=lambda _who, _typed: {"owner": ""}, said=_later("Nobody owns it now.")),
    "hold": Verb(
        changes=lambda _who, _typed: {"operator_disposition": Disposition.HOLD_INDEFINITELY},
        said=_later("Held: its letters follow within seconds, new ones too."),
    ),
    "release": Verb(
        changes=lambda _who, _typed: {"operator_disposition": Disposition.NONE},
        said=_later("Released: its letters follow within seconds."),
    ),
    "quiet_hour": Verb(
        changes=lambda _who, _typed: {"quiet_until": timezone.now().replace(microsecond=0) + QUIET},
        said=_later("Quiet for an hour."),
    ),
    "quiet_build": Verb(
        changes=lambda _who, typed: {"quiet_until_generation": _given("quiet_until_generation", typed)},
        said=_later("Quiet until that build."),
    ),
    "quiet_count": Verb(
        changes=lambda _who, typed: {
            "quiet_until_count": read("quiet_until_count", _given("quiet_until_count", typed))
        },
        said=_later("Quiet until it has so many letters."),
    ),
    "loud": Verb(
        changes=lambda _who, _typed: {"quiet_until": None, "quiet_until_generation": "", "quiet_until_count": None},
        said=_later("Quiet no longer."),
    ),
    "resolve": Verb(
        changes=lambda _who, _typed: {"state": GroupState.RESOLVED.value},
        said=_later("Resolved: the next death brings it back as regressed."),
    ),
}


def _given(name: str, typed: str) -> str:
    if not typed.strip():
        raise BadChange(name, "must be given")
    return typed.strip()


@needs(access.VIEW)
@require_safe
@takes()
def menu(request: HttpRequest, group_id: UUID) -> HttpResponse:
    """Return what can be done to a group in one step, for its row; without htmx as a page of its own."""
    in_row = wants_fragment(request)
    with regions.reading() as read:
        try:
            region = read("group", lambda: groups.get(group_id))
        except NoSuchGroup:
            return no_such(request, "deadletters/groups/missing.html", _("There is no such group."))
        numbers = read("group numbers", lambda: _numbers(region.value), needs=[region])
    by_status = numbers.value or {}
    context = {
        "region": region,
        "numbers": numbers,
        "group": region.value,
        "group_id": group_id,
        "opens": by_status.get(RecoveryStatus.PENDING, 0),
        "helds": by_status.get(RecoveryStatus.HELD, 0),
        "now": timezone.now(),
        "in_row": in_row,
    }
    return render(request, f"deadletters/groups/{'_verbs' if in_row else 'menu'}.html", context)


def _numbers(found: FailureGroup | None) -> Mapping[int, int]:
    return groups.counts_of(groups.fingerprints_of(found)).all.by_status if found else {}


@needs(access.TRIAGE)
@require_POST
def act(request: HttpRequest, group_id: UUID) -> HttpResponse:
    """Do one thing to a group; 400 unknown verb, 404 no group, 409 somebody was first, 422 what cannot be kept.

    By htmx the row is answered as it is then, with what was done in it.
    """
    name = request.POST.get("action", "")
    if name not in VERBS and name != "note":
        return HttpResponse(_("There is no such action."), status=400, content_type="text/plain")
    try:
        found = groups.get(group_id)
        said, status = _do(request, found, name), 200
    except NoSuchGroup:
        return no_such(request, "deadletters/groups/missing.html", _("There is no such group."))
    except (BadChange, BadNote) as exc:
        said, status = str(exc), 422
    except StaleChange:
        said, status = _("Somebody changed it meanwhile. Nothing was changed: this is how it is now."), 409
    if wants_fragment(request):
        return _row(request, found.group_id, said, status)
    (messages.success if status == 200 else messages.error)(request, _linked(found, said))
    return redirect(referring_page(request, "deadletters:groups"))


def _do(request: HttpRequest, found: FailureGroup, name: str) -> str:
    typed = request.POST.get("typed", "")
    if name == "note":
        triage.add_note(group_id=found.group_id, text=typed, user=request.user)
        return _("The note is written.")
    verb = VERBS[name]
    changed = triage.change_group(
        group_id=found.group_id,
        user=request.user,
        changes=verb.changes(request.user.get_username(), typed),
        row_version=version_of(request.POST),
    )
    return str(verb.said) if changed else _("It was so already; nothing was changed.")


def version_of(typed: QueryDict) -> int:
    """Return the version that the person saw; one that nobody can have seen when it is not given."""
    given = typed.get("row_version", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else -1


def _name(found: FailureGroup) -> str:
    from deadletters.templatetags.deadletters import group_title

    return group_title(found)[:80]


def _linked(found: FailureGroup, said: str) -> SafeString:
    """Say what was done to a group with a link to it: the list may not show it any more."""
    return format_html('<a href="{}">{}</a>: {}', reverse("deadletters:group", args=[found.pk]), _name(found), said)


def _row(request: HttpRequest, group_id: UUID, said: str, status: int) -> HttpResponse:
    now = timezone.now()
    (row,) = grouprows.rows(groups.with_notes([group_id]), now=now, seen=visits.since(request.user))
    context = {"row": row, "now": now, "said": said, "went_wrong": status != 200}
    return render(request, "deadletters/groups/_one_row.html", context, status=status)
