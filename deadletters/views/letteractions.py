"""What may be done to one dead letter."""

from functools import partial
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from deadletters import triage
from deadletters.models import Disposition
from deadletters.queries import letters
from deadletters.store.recovery import Sent
from deadletters.views import triageforms
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.letter import FIELDS, NOTES, WHOLE, back_to, form_seen, fragment, no_such_letter, whole
from deadletters.views.parameters import reason_of
from deadletters.words import access
from deadletters.words.errors import BadChange, BadNote, NoSuchLetter, StaleChange

DECISIONS = {
    "hold": Disposition.HOLD_INDEFINITELY,
    "release": Disposition.NONE,
    "give_up": Disposition.MARK_PERMANENTLY_FAILED,
    "reopen": Disposition.NONE,
}


@needs(access.RECOVER)
@require_POST
def recover(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Recover one letter; 409 with its fresh state when somebody was first."""
    try:
        recovery = triage.recover(dead_letter_id=dead_letter_id, user=request.user, **seen_numbers(request))
    except NoSuchLetter:
        return no_such_letter(request)
    said = recovery_words(recovery)
    status = 200 if recovery.is_sent else 409
    if wants_fragment(request):
        return fragment(request, dead_letter_id, "_live.html", status=status, said=said)
    if not recovery.is_sent:
        return whole(request, dead_letter_id, status=status, said=said)
    messages.success(request, said)
    return back_to(request, dead_letter_id)


def seen_numbers(request: HttpRequest) -> dict[str, int | None]:
    """Return the numbers of the death and of the payload that the form was about; None = it does not say."""
    given = {name: request.POST.get(name, "") for name in ("death", "version")}
    is_number = {name: text.isascii() and text.isdigit() and len(text) < 10 for name, text in given.items()}
    return {name: int(text) if is_number[name] else None for name, text in given.items()}


@needs(access.TRIAGE)
@require_POST
def add_note(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Write a note; 422 with what was typed when it cannot be kept."""
    text = request.POST.get("text", "")
    try:
        triage.add_note(dead_letter_id=dead_letter_id, text=text, user=request.user)
    except NoSuchLetter:
        return no_such_letter(request)
    except BadNote as exc:
        wrong = {"note_error": str(exc), "note_text": text}
        if wants_fragment(request):
            return fragment(request, dead_letter_id, NOTES, status=422, **wrong)
        return whole(request, dead_letter_id, status=422, **wrong)
    if wants_fragment(request):
        return fragment(request, dead_letter_id, NOTES)
    messages.success(request, _("The note is written."))
    return back_to(request, dead_letter_id)


@needs(access.TRIAGE)
@require_POST
def triage_letter(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Save the triage form: 422 with what was typed when it cannot be kept, 409 when somebody was first."""
    try:
        letter = letters.get(dead_letter_id)
        answer = triageforms.answer(
            request,
            letter,
            FIELDS,
            change=partial(triage.change_letter, dead_letter_id=letter.pk, row_version=letter.row_version),
            fresh=partial(letters.get, dead_letter_id),
            is_stale=request.POST.get("seen") != form_seen(letter),
        )
    except NoSuchLetter:
        return no_such_letter(request)
    if answer.form:
        template = "_triage.html" if wants_fragment(request) else WHOLE
        return fragment(request, letter.dead_letter_id, template, status=answer.status, **answer.again)
    if wants_fragment(request):
        return fragment(request, letter.dead_letter_id, "_triaged.html", form_said=answer.said)
    messages.success(request, answer.said)
    return back_to(request, letter.dead_letter_id)


@needs(access.TRIAGE)
@require_POST
def decide(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Hold, release, give up or reopen one letter; 409 with its fresh state when it is in another one by now."""
    decision = DECISIONS.get(request.POST.get("decision", ""))
    if decision is None:
        return HttpResponse(_("There is no such decision."), status=400, content_type="text/plain")
    try:
        letter = letters.get(dead_letter_id)
        if request.POST.get("status") != str(letter.recovery_status):
            raise StaleChange
        changes = {"operator_disposition": decision.value}
        triage.change_letter(
            dead_letter_id=letter.dead_letter_id,
            user=request.user,
            changes=changes,
            reason=reason_of(request),
            row_version=letter.row_version,
        )
    except NoSuchLetter:
        return no_such_letter(request)
    except BadChange as exc:
        return _decided(request, dead_letter_id, 409, str(exc))
    except StaleChange:
        return _decided(request, dead_letter_id, 409, _("It has changed meanwhile. Nothing was done."))
    return _decided(request, letter.dead_letter_id, 200, _("Done."))


def _decided(request: HttpRequest, dead_letter_id: UUID, status: int, said: str) -> HttpResponse:
    if wants_fragment(request):
        return fragment(request, dead_letter_id, "_live.html", status=status, said=said)
    if status != 200:
        return whole(request, dead_letter_id, status=status, said=said)
    messages.success(request, said)
    return back_to(request, dead_letter_id)


def recovery_words(recovery: triage.Recovery) -> str:
    """Say what became of a request to recover."""
    by = recovery.by or _("somebody")
    at = f"{recovery.at:%Y-%m-%d %H:%M:%S} UTC" if recovery.at else _("an unknown time")
    return {
        Sent.SENT: _("Sent back to its queue. It counts as recovered once its handler has handled it."),
        Sent.RECOVERING: _("Already recovering, by %(by)s at %(at)s.") % {"by": by, "at": at},
        Sent.RECOVERED: _("Already recovered by %(by)s at %(at)s.") % {"by": by, "at": at},
        Sent.GIVEN_UP: _("It was given up; it is not recovered again."),
        Sent.CONFLICT: _("A message with the same id waits in the queue already. Nothing was changed."),
        Sent.SUPERSEDED: _("A later dead letter has taken its place. Nothing was changed."),
        Sent.DIED_AGAIN: _("It has died again since this page was read. Look at the new failure; nothing was changed."),
        Sent.EDITED: _("Its payload was edited since this page was read. Look at it; nothing was changed."),
        Sent.UNSUPPORTED: _("Letters of this source cannot be recovered here."),
        Sent.BROKEN: _("Its row cannot be restored as it is stored. Nothing was changed."),
    }[recovery.sent]
