"""The payload of one letter: its edit, its versions and their differences; and the letter's purge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from deadletters import triage
from deadletters.models import DeadLetter, DeadLetterPayload
from deadletters.queries import letters, versions
from deadletters.triage import edits
from deadletters.triage.edits import Draft, Preview
from deadletters.triage.purges import MAX_REASON
from deadletters.views import asked
from deadletters.views.access import needs
from deadletters.views.letter import no_such_letter
from deadletters.views.parameters import takes
from deadletters.words import access
from deadletters.words.commands import command_for
from deadletters.words.edits import Line
from deadletters.words.errors import (
    BadChange,
    FormTooLong,
    NoSuchForm,
    NoSuchLetter,
    NoSuchVersion,
    NotYourForm,
    StaleChange,
)

ABOUT = "edit"
MAX_EDITED_BYTES = 256 * 1024
"""Bytes of a payload that a page lays out; the command takes larger ones."""
MAX_KEPT_CHARACTERS = 1_000_000
"""Characters of what was typed, urlencoded, while its difference is looked at."""

PAGE = require_http_methods(["GET", "HEAD", "POST"])


def _wrong_number(given: str) -> str:
    return "" if given.isascii() and given.isdigit() and len(given) < 10 else "must be the number of a version"


@dataclass(frozen=True, kw_only=True)
class EditContext:
    """What the edit page shows; without a draft only why there is none.

    `seen` tells the payload that the form began with, `previewed` the text whose difference is shown.
    """

    letter: DeadLetter
    draft: Draft | None = None
    typed: str = ""
    reason: str = ""
    seen: str = ""
    preview: Preview | None = None
    previewed: str = ""
    said: str = ""
    overtaken: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    may_recover: bool = False
    max_reason: int = edits.MAX_REASON
    command: str = ""


@needs(access.EDIT_PAYLOAD)
@takes(asked.PARAMETER)
@PAGE
def edit(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Show the payload as it is edited; a POST leads to the difference first, and saves what was shown.

    422 for what cannot be kept, 409 when the payload has changed since the form was filled.
    """
    try:
        letter = letters.get(dead_letter_id)
        draft = _draft(request, letter)
        return _post(request, letter, draft) if request.method == "POST" else _show(request, letter, draft)
    except NoSuchLetter:
        return no_such_letter(request)
    except BadChange as exc:
        context = EditContext(letter=letter, said=str(exc), command=command_for("edit", letter.pk, show=True))
        return _render(request, "edit.html", vars(context), status=422 if request.method == "POST" else 200)


@needs(access.VIEW)
@require_safe
@takes(**{"with": _wrong_number})
def version(request: HttpRequest, dead_letter_id: UUID, number: int) -> HttpResponse:
    """Show a version of a payload beside the one before it, or beside the one that `with` names."""
    try:
        letter = letters.get(dead_letter_id)
        return _version(request, letter, number)
    except NoSuchLetter:
        return no_such_letter(request)
    except NoSuchVersion as exc:
        return HttpResponse(str(exc), status=404, content_type="text/plain")


@needs(access.EDIT_PAYLOAD)
@require_POST
def restore(request: HttpRequest, dead_letter_id: UUID, number: int) -> HttpResponse:
    """Put an earlier version back; 422 without a reason, 409 when the letter has changed meanwhile."""
    try:
        return _restore(request, letters.get(dead_letter_id), number)
    except NoSuchLetter:
        return no_such_letter(request)
    except NoSuchVersion as exc:
        return HttpResponse(str(exc), status=404, content_type="text/plain")


@needs(access.PURGE)
@takes()
@PAGE
def purge(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Ask before a letter is removed for good; 409 with the reason when it stays."""
    try:
        letter = letters.get(dead_letter_id)
        return _purge(request, letter) if request.method == "POST" else _ask_to_purge(request, letter)
    except NoSuchLetter:
        return no_such_letter(request)
    except BadChange as exc:
        return _ask_to_purge(request, letter, status=422, errors={exc.field: str(exc)})
    except StaleChange:
        said = _("It has changed meanwhile. Nothing was done; look at it again.")
        return _ask_to_purge(request, letters.get(dead_letter_id), status=409, said=said)


# --- the edit


def _draft(request: HttpRequest, letter: DeadLetter) -> Draft:
    if problem := edits.why_not(letter):
        raise BadChange("payload", problem)
    return edits.draft(dead_letter_id=letter.dead_letter_id, user=request.user, max_bytes=MAX_EDITED_BYTES)


def _show(request: HttpRequest, letter: DeadLetter, draft: Draft) -> HttpResponse:
    """Show the payload as it is, or what the address names: what was typed, with its difference."""
    shown = EditContext(letter=letter, draft=draft, typed=draft.text, seen=_hash(draft.text))
    if asked.PARAMETER not in request.GET:
        return _form(request, shown)
    try:
        typed = asked.find(request, about=ABOUT, dead_letter_id=letter.dead_letter_id)
    except NoSuchForm as exc:
        said = asked.not_found(exc) + " " + _("Below is the payload as it is now.")
        return _form(request, replace(shown, said=said), status=404)
    except NotYourForm as exc:
        return _form(request, replace(shown, said=asked.not_found(exc)), status=403)
    return _typed(request, letter, draft, typed, _previewed)


def _post(request: HttpRequest, letter: DeadLetter, draft: Draft) -> HttpResponse:
    return _typed(request, letter, draft, request.POST, _save)


def _typed(
    request: HttpRequest, letter: DeadLetter, draft: Draft, given: QueryDict, go_on: Callable[..., HttpResponse]
) -> HttpResponse:
    """Go on with what was typed, unless the payload has changed since the form was filled."""
    typed = given.get("text", "").replace("\r\n", "\n")
    shown = EditContext(letter=letter, draft=draft, seen=_hash(draft.text), reason=given.get("reason", "").strip())
    if given.get("seen") != shown.seen:
        return _form(request, replace(shown, typed=draft.text, overtaken=typed), status=409)
    shown = replace(shown, typed=typed)
    try:
        return go_on(request, shown, draft)
    except BadChange as exc:
        return _form(request, replace(shown, errors={exc.field: str(exc)}), status=422)
    except StaleChange:
        return _form(request, replace(shown, said=_("It has changed meanwhile. Try again.")), status=409)


def _previewed(request: HttpRequest, shown: EditContext, draft: Draft) -> HttpResponse:
    return _form(request, _with_preview(request, shown, draft))


def _with_preview(request: HttpRequest, shown: EditContext, draft: Draft) -> EditContext:
    preview = edits.preview(**_edit_of(request, shown, draft), max_bytes=MAX_EDITED_BYTES)
    return replace(shown, preview=preview, previewed=_hash(shown.typed))


def _edit_of(request: HttpRequest, shown: EditContext, draft: Draft) -> dict[str, Any]:
    letter_id = shown.letter.dead_letter_id
    return {"dead_letter_id": letter_id, "text": shown.typed, "user": request.user, "row_version": draft.row_version}


def _save(request: HttpRequest, shown: EditContext, draft: Draft) -> HttpResponse:
    """Lead to the difference, or save the very text whose difference was shown."""
    letter, shown = shown.letter, _with_preview(request, shown, draft)
    if request.POST.get("step") not in ("save", "recover") or request.POST.get("previewed") != shown.previewed:
        return _to_preview(request, shown)
    try:
        number = triage.edit(**_edit_of(request, shown, draft), reason=shown.reason)
    except BadChange as exc:
        return _form(request, replace(shown, errors={exc.field: str(exc)}), status=422)
    asked.forget(request)
    if request.POST.get("step") == "recover":
        recovery = triage.recover(
            dead_letter_id=letter.dead_letter_id, user=request.user, death=letter.deaths, version=number
        )
        sent = _("It was sent.") if recovery.is_sent else _("It was not sent: somebody was first.")
        messages.success(request, _("Saved as version %(n)s.") % {"n": number} + " " + sent)
    else:
        messages.success(request, _("Saved as version %(n)s. Recover sends it.") % {"n": number})
    return redirect("deadletters:letter", letter.dead_letter_id)


def _to_preview(request: HttpRequest, shown: EditContext) -> HttpResponse:
    """Keep what was typed under an address, and lead there: a browser that goes back finds it again."""
    kept, letter_id = QueryDict(mutable=True), shown.letter.dead_letter_id
    kept.update({"text": shown.typed, "reason": shown.reason, "seen": shown.seen})
    try:
        name = asked.keep(request, kept, about=ABOUT, most=MAX_KEPT_CHARACTERS, dead_letter_id=letter_id)
    except FormTooLong as exc:
        raise BadChange("payload", "is too large for a page; a command takes it") from exc
    return redirect(f"{reverse('deadletters:edit', args=[letter_id])}?{name}")


def _form(request: HttpRequest, context: EditContext, *, status: int = 200) -> HttpResponse:
    more = {"may_recover": request.user.has_perm(access.RECOVER)}
    return _render(request, "edit.html", {**vars(context), **more}, status=status)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


# --- versions


def _restore(request: HttpRequest, letter: DeadLetter, number: int) -> HttpResponse:
    try:
        new = triage.restore(
            user=request.user,
            dead_letter_id=letter.dead_letter_id,
            version=number,
            reason=request.POST.get("reason", ""),
            row_version=_number(request, "row_version"),
        )
    except BadChange as exc:
        return _version(request, letter, number, status=422, errors={exc.field: str(exc)})
    except StaleChange:
        return _version(request, letter, number, status=409, said=_("It has changed meanwhile. Nothing was done."))
    messages.success(request, _("Version %(old)s is back, as version %(new)s.") % {"old": number, "new": new})
    return redirect("deadletters:letter", letter.dead_letter_id)


def _version(
    request: HttpRequest, letter: DeadLetter, number: int, *, status: int = 200, said: str = "", errors: Any = None
) -> HttpResponse:
    known = versions.of_letter(letter)
    shown = next((one for one in known if one.version == number), None)
    if shown is None:
        raise NoSuchVersion(number)
    beside = _beside(request, known, number)
    problem, lines = "", []
    try:
        lines = _difference(request, letter, number, beside)
    except BadChange as exc:
        problem = str(exc)
    context = {
        "letter": letter,
        "version": shown,
        "versions": known,
        "beside": beside,
        "lines": lines,
        "problem": problem,
        "said": said,
        "errors": errors or {},
        "may_restore": _may_edit(request, letter) and number != letter.edited_version,
        "max_reason": edits.MAX_REASON,
        "now": timezone.now(),
    }
    return _render(request, "version.html", context, status=status)


def _beside(request: HttpRequest, known: Sequence[DeadLetterPayload], number: int) -> int:
    """Return the number of the version that one is compared with: the one asked for, or its neighbour."""
    numbers = {one.version for one in known}
    wanted = _number(request, "with", request.GET)
    return wanted if wanted in numbers else number - 1 if number - 1 in numbers else number + 1


def _difference(request: HttpRequest, letter: DeadLetter, number: int, beside: int) -> list[Line]:
    old, new = sorted((number, beside))
    return list(
        edits.compare(
            dead_letter_id=letter.dead_letter_id,
            version=new,
            with_version=old,
            user=request.user,
            max_bytes=MAX_EDITED_BYTES,
        )
    )


def _may_edit(request: HttpRequest, letter: DeadLetter) -> bool:
    return request.user.has_perm(access.EDIT_PAYLOAD) and not edits.why_not(letter)


# --- the purge


def _purge(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    done = triage.purge(
        user=request.user,
        dead_letter_ids=[letter.dead_letter_id],
        reason=request.POST.get("reason", ""),
        let_streams_go=request.POST.get("let_stream_go") == "on",
        row_version=_number(request, "row_version"),
    )
    if done.refused:
        said = _("It was not purged: %(why)s.") % {"why": done.refused[letter.dead_letter_id]}
        return _ask_to_purge(request, letter, status=409, said=said)
    messages.success(request, _("The dead letter is gone. The audit keeps who purged it, and why."))
    return redirect("deadletters:letters")


def _ask_to_purge(
    request: HttpRequest, letter: DeadLetter, *, status: int = 200, said: str = "", errors: Any = None
) -> HttpResponse:
    context = {
        "letter": letter,
        "reason": request.POST.get("reason", ""),
        "notes": len(letters.notes_of(letter)),
        "said": said,
        "errors": errors or {},
        "max_reason": MAX_REASON,
        "now": timezone.now(),
    }
    return _render(request, "purge.html", context, status=status)


def _number(request: HttpRequest, name: str, values: Mapping[str, Any] | None = None) -> int:
    """Return a number of a form; -1, which nothing has, for what is none."""
    text = str((request.POST if values is None else values).get(name, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/letters/{template}", context, status=status)
