"""What administrators set: recovery policies, pauses and legal holds."""

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from deadletters import triage
from deadletters.admin.auditing import AuditedAdmin, values_of
from deadletters.models import LegalHold, RecoveryPolicy
from deadletters.recovery.policies import Change, Simulation, apply, simulate
from deadletters.store.audit import Actor
from deadletters.store.decisions import policy_of
from deadletters.words import access
from deadletters.words.errors import BadChange, NoSuchPause
from queues.models import SourcePause

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm  # generic for the type checker only

SIMULATE = "_simulate"
"""The name of the button that asks what a change would do."""


class SetUpForm(_ModelForm):
    """A form that says itself what is wrong; a constraint of the database is named only where it does not.

    `seen`: a digest of the row that the person saw, so that nobody writes over what another one saved meanwhile.
    """

    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.present = _digest(self.instance) if self.instance.pk else ""
        self.initial["seen"] = self.present

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("seen") not in ("", self.present):
            self.add_error(None, "Somebody has changed it since this page was read. Open it again; nothing was saved.")
        return cleaned

    def _update_errors(self, errors: ValidationError) -> None:
        if not self.errors:
            super()._update_errors(errors)  # type: ignore[misc]  # of Django's ModelForm, which the stubs leave out


class PolicyForm(SetUpForm):
    """A policy. Asked to simulate, it says what the change would do to present letters, and is not saved."""

    simulation: Simulation | None = None

    def is_valid(self) -> bool:
        is_good = super().is_valid()
        if is_good and SIMULATE in self.data:
            before = RecoveryPolicy.objects.filter(pk=self.instance.pk).first()
            self.simulation = simulate(_policy_change(before, self.instance))
        return is_good and SIMULATE not in self.data

    class Meta:
        labels = {
            "is_automatic": "Recovered by the schedule",
            "max_recoveries": "Automatic recoveries",
            "cooldown_seconds": "Cooldown (seconds)",
            "then": "When they are used up",
        }
        help_texts = {
            "cause": "Why the message was dead-lettered.",
            "failure_reason": "Empty: any reason. A row with a reason goes before the one without.",
            "is_automatic": "Off: the schedule leaves such letters alone, open for a person.",
            "max_recoveries": "How often the schedule recovers a letter before it holds it or gives it up.",
            "cooldown_seconds": "Seconds from a death to the first automatic recovery; doubled with each further one.",
        }


def _digest(row: Any) -> str:
    return sha256(json.dumps(values_of(row), sort_keys=True).encode()).hexdigest()[:16]


def _policy_change(before: RecoveryPolicy | None, after: RecoveryPolicy | None) -> Change:
    return Change(before=policy_of(before) if before else None, after=policy_of(after) if after else None)


@admin.register(RecoveryPolicy)
class RecoveryPolicyAdmin(AuditedAdmin):
    """Policies; what a change does to present letters is shown before it, done after it, and kept in the audit."""

    thing = "policy"
    form = PolicyForm
    ordering = ("cause", "id")
    list_display = ("name", "cause", "failure_reason", "is_automatic", "max_recoveries", "cooldown_seconds", "then")

    def carry_out(self, before: RecoveryPolicy | None, after: RecoveryPolicy | None) -> Mapping[str, Any]:
        change = _policy_change(before, after)
        expected = simulate(change)
        apply(change)
        return {"letters": expected.as_json()}

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        found = self.get_object(request, unquote(object_id)) if request.method == "GET" else None
        expected = simulate(_policy_change(found, None)) if found and self.has_delete_permission(request) else None
        return super().delete_view(request, object_id, {**(extra_context or {}), "simulation": expected})


class PauseForm(SetUpForm):
    class Meta:
        labels = {"kind": "Covers", "value": "Type, perspective or destination"}
        help_texts = {
            "value": "Empty for a whole source.",
            "until": "When it ends by itself; empty: when it is deleted.",
        }
        widgets = {"reason": AdminTextInputWidget}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        said = {name: cleaned.get(name, getattr(self.instance, name)) for name in ("source", "kind", "value")}
        try:
            triage.check_pause(**said, until=cleaned.get("until") if "until" in self.changed_data else None)
        except BadChange as exc:
            self.add_error(exc.field if exc.field in self.fields else None, str(exc))
        return cleaned


@admin.register(SourcePause)
class SourcePauseAdmin(AuditedAdmin):
    """Pauses; made, changed and ended through the door that the pages use."""

    thing = "pause"
    form = PauseForm
    kept = ("source", "kind", "value")
    stamped = ("paused_by", "paused_at")
    ordering = ("-paused_at", "-id")
    list_display = ("source", "kind", "value", "paused_by", "paused_at", "until", "reason")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [*(self.kept if obj is not None else ()), *super().get_readonly_fields(request, obj)]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and request.user.has_perm(access.TRIAGE)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and request.user.has_perm(access.TRIAGE)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and request.user.has_perm(access.TRIAGE)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:  # noqa: ARG002 - Django gives them
        if change:
            triage.change_pause(pause_id=obj.pk, user=request.user, reason=obj.reason, until=obj.until)
            return
        named = {name: getattr(obj, name) for name in (*self.kept, "reason", "until")}
        obj.pk = triage.pause(**named, user=request.user).pk
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with suppress(NoSuchPause):  # somebody was first, and it is over
            triage.resume(pause_id=obj.pk, user=request.user)


class HoldForm(SetUpForm):
    """A hold; what it keeps is said once, and it ends by being lifted."""

    lift = forms.BooleanField(required=False, help_text="End the hold: what it kept may be purged from now on.")

    class Meta:
        help_texts = {
            "dead_letter_id": "One letter, or one group, or a subject by its type and id.",
            "reason": "Why it must be kept.",
        }
        widgets = dict.fromkeys(("subject_type", "subject_id", "reason"), AdminTextInputWidget)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "dead_letter_id" in self.fields:
            cleaned |= {name: cleaned.get(name) or None for name in ("subject_type", "subject_id")}
            subject = bool(cleaned.get("subject_type")), bool(cleaned.get("subject_id"))
            given = [bool(cleaned.get("dead_letter_id")), bool(cleaned.get("group_id")), any(subject)]
            if sum(given) != 1 or (any(subject) and not all(subject)):
                self.add_error(None, "A hold keeps one letter, or one group, or one subject by its type and id.")
        return cleaned


@admin.register(LegalHold)
class LegalHoldAdmin(AuditedAdmin):
    thing = "legal_hold"
    form = HoldForm
    searched = ("id",)
    kept = ("dead_letter_id", "group_id", "subject_type", "subject_id")
    stamped = ("placed_by", "placed_at", "lifted_by", "lifted_at")
    ordering = ("-id",)
    list_display = ("id", *kept, "reason", "placed_by", "placed_at", "lifted_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        lift = ("lift",) if obj is not None and self.has_change_permission(request, obj) else ()
        return [*super().get_fields(request, obj), *lift]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        kept = self.kept if obj is not None else ()
        return [*super().get_readonly_fields(request, obj), *kept]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.lifted_at is None)

    def stamp(self, row: LegalHold, *, by: Actor, change: bool, form: Any) -> None:
        if not change:
            row.placed_by = by.name
        elif form.cleaned_data.get("lift"):
            row.lifted_by, row.lifted_at = by.name, timezone.now()

    def subject_of(self, row: LegalHold) -> Mapping[str, Any]:
        return {"dead_letter_id": row.dead_letter_id, "group_id": row.group_id}
