"""What becomes of the triage form of a letter or a group when it is sent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.http import HttpRequest
from django.utils.translation import gettext as _

from deadletters import triage
from deadletters.views.parameters import Form, changes_of, reason_of, refused_form
from deadletters.words.errors import BadChange, StaleChange

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Answer(Generic[Row]):
    """The row as it is now, and what is said of a form that was kept, or the form to be shown again."""

    row: Row
    status: int = 200
    said: str = ""
    form: Form | None = None

    @property
    def again(self) -> dict[str, Any]:
        """Return what a page shows of a form that was not kept."""
        return {"form": self.form, "stale": self.status == 409}


def answer(
    request: HttpRequest,
    row: Row,
    fields: Sequence[str],
    *,
    change: Callable[..., triage.Changed],
    fresh: Callable[[], Row],
    is_stale: bool = False,
) -> Answer[Row]:
    """Change a row as its form says: 422 with what was typed when it cannot be kept, 409 when somebody was first.

    change: takes user, changes and reason; raises BadChange and StaleChange. is_stale: it is known already.
    """
    try:
        if is_stale:
            raise StaleChange
        changed = change(user=request.user, changes=changes_of(request, row, fields), reason=reason_of(request))
    except BadChange as exc:
        return Answer(row=row, status=422, form=refused_form(request, row, fields, wrong=exc))
    except StaleChange:
        row = fresh()
        return Answer(row=row, status=409, form=refused_form(request, row, fields))
    return Answer(row=row, said=_("Saved.") if changed else _("Nothing was different; nothing was changed."))
