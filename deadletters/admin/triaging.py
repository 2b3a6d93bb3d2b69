"""The base of admins in which people triage: triage columns are written by the triage service alone."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from deadletters.admin.reading import ReadingAdmin
from deadletters.triage import Changed
from deadletters.words import access
from deadletters.words.errors import BadChange, NoSuchGroup, NoSuchLetter, StaleChange

MAX_REASON = 500

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm  # generic for the type checker only


def line(*, limit: int, label: str = "", help_text: str = "") -> forms.CharField:
    """Return a field for one line of text that may be left out."""
    return forms.CharField(
        required=False, max_length=limit, label=label or None, help_text=help_text, widget=AdminTextInputWidget
    )


class TriageForm(_ModelForm):
    """Triage columns, a reason for the audit, and the version of the row that was seen."""

    refused: BadChange | None = None
    reason = line(limit=MAX_REASON, help_text="Kept with the change in the audit.")
    row_version = forms.IntegerField(widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.refused is not None:
            field = self.refused.field if self.refused.field in self.fields else None
            self.add_error(field, str(self.refused))
        return cleaned

    def _post_clean(self) -> None:
        """Leave the instance as it was read: it is not saved, and the service checks the values."""


class TriageAdmin(ReadingAdmin):
    """A table whose columns named in `triaged` are changed by those who may triage; all others are facts."""

    triaged: Sequence[str] = ()
    facts: Sequence[tuple[str, Sequence[Any]]] = ()

    change: Callable[..., Changed]
    """The service of each: saves `changes` of `row` by `user` for `reason`, seen at `row_version`."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return self.has_view_permission(request) and request.user.has_perm(access.TRIAGE)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        own = ("reason", "row_version") if self.has_change_permission(request, obj) else ()
        return [*self.triaged, *own, *self._facts()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = self.get_fields(request, obj)
        facts = self._facts()
        first = ("Triage", {"fields": [name for name in shown if name not in facts]})
        return [first, *((title, {"fields": list(names)}) for title, names in self.facts)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:  # noqa: ARG002 - Django gives them
        return self._facts()

    def _facts(self) -> list[Any]:
        return [name for _, names in self.facts for name in names]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.refused = getattr(request, "refused_change", None)  # type: ignore[attr-defined]
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:  # noqa: ARG002 - Django gives them
        self.change(
            obj,
            user=request.user,
            changes={name: form.cleaned_data[name] for name in form.changed_data if name in self.triaged},
            reason=form.cleaned_data["reason"],
            row_version=form.cleaned_data["row_version"],
        )

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the page or save; what the service refuses is an error of the form, or a fresh page and a message."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except BadChange as refused:
            request.refused_change = refused  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)
        except (StaleChange, NoSuchGroup, NoSuchLetter):
            said = "Nothing was saved: somebody changed this meanwhile. Here is how it is now."
            self.message_user(request, said, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
