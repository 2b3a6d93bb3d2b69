"""Filters of the list that people keep under a name, for themselves or for everybody.

Each change writes one operator action in its transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q

from deadletters.models import SavedView
from deadletters.store import audit
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadFilter, BadView, NoSuchView
from deadletters.words.filters import LetterFilter
from queues.words.redaction import mask_text
from queues.words.text import storable

PAGE = "letters"
MAX_VIEWS = 50
"""Views that one person keeps."""
MAX_NAME = 60
"""Characters of a view's name."""
MAX_QUERY = 2_000
"""Characters of a view's query string."""
MAX_LISTED = 100
"""Views, one's own and others' shared ones, that a page shows."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A view as a person sees it. `filters`: None where its query is not understood any more, which `error` tells."""

    id: int
    name: str
    query: str
    owner: str
    is_shared: bool
    is_own: bool
    filters: LetterFilter | None
    error: str = ""


def of(user: Any) -> Sequence[View]:
    """Return a person's own views and those that others share, by name, their own first."""
    _require(user, access.VIEW)
    found = SavedView.objects.filter(_seen_by(user), page=PAGE).order_by("name", "id")[:MAX_LISTED]
    return sorted((_view(row, user) for row in found), key=lambda view: not view.is_own)


def get(view_id: int, user: Any) -> View:
    """Return one view that the person sees; raises NoSuchView."""
    _require(user, access.VIEW)
    row = SavedView.objects.filter(_seen_by(user), page=PAGE, pk=view_id).first()
    if row is None:
        raise NoSuchView(str(view_id))
    return _view(row, user)


@transaction.atomic
def save(*, user: Any, name: str, query: str, is_shared: bool) -> View:
    """Keep a filter under a name. Raises PermissionDenied, BadView, BadFilter."""
    by = actor(user, access.TRIAGE if is_shared else access.VIEW)
    kept = _name(name)
    filters = _filters(query)
    own = SavedView.objects.filter(owner_id=str(user.pk), page=PAGE)
    if own.count() >= MAX_VIEWS:
        raise BadView(f"You keep {MAX_VIEWS} views already; remove one first.")
    row = SavedView(
        owner_id=str(user.pk),
        owner=user.get_username(),
        page=PAGE,
        name=kept,
        query=_bounded(filters.query(size="")),
        is_shared=is_shared,
    )
    _write(row, kept)
    audit.record(actor=by, action="save_view", after=_kept(row))
    return _view(row, user)


@transaction.atomic
def change(*, view_id: int, user: Any, name: str, is_shared: bool, query: str | None = None) -> View:
    """Rename one's own view, share it or not, or give it another query; the query stays where none is given.

    Raises PermissionDenied, NoSuchView, BadView, BadFilter.
    """
    row = _own(view_id, user)
    if is_shared and not row.is_shared:
        _require(user, access.TRIAGE)
    before = _kept(row)
    row.name, row.is_shared = _name(name), is_shared
    if query is not None:
        row.query = _bounded(_filters(query).query(size=""))
    _write(row, row.name)
    if _kept(row) != before:
        audit.record(actor=actor(user, access.VIEW), action="change_view", before=before, after=_kept(row))
    return _view(row, user)


@transaction.atomic
def remove(*, view_id: int, user: Any) -> None:
    """Remove one's own view. Raises PermissionDenied, NoSuchView."""
    row = _own(view_id, user)
    audit.record(actor=actor(user, access.VIEW), action="remove_view", before=_kept(row))
    row.delete()


def _kept(row: SavedView) -> dict[str, Any]:
    """Return what the audit says of a view; its filter in words."""
    filters = _view_of(row.query)
    return {"view": row.name, "filter": mask_text(filters.words() if filters else row.query), "shared": row.is_shared}


def _view_of(query: str) -> LetterFilter | None:
    try:
        return _filters(query)
    except BadFilter:
        return None


def _own(view_id: int, user: Any) -> SavedView:
    _require(user, access.VIEW)
    row = SavedView.objects.select_for_update().filter(pk=view_id, page=PAGE, owner_id=str(user.pk)).first()
    if row is None:
        raise NoSuchView(str(view_id))
    return row


def _write(row: SavedView, name: str) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as exc:
        raise BadView(f"You keep a view named “{name}” already.") from exc


def _view(row: SavedView, user: Any) -> View:
    error, filters = "", None
    try:
        filters = _filters(row.query)
    except BadFilter as exc:
        error = str(exc)
    return View(
        id=row.pk,
        name=row.name,
        query=row.query,
        owner=row.owner,
        is_shared=row.is_shared,
        is_own=row.owner_id == str(user.pk),
        filters=filters,
        error=error,
    )


def _filters(query: str) -> LetterFilter:
    given = parse_qsl(query)
    if len(dict(given)) != len(given):
        raise BadFilter("A filter is given twice; once is enough.")
    return LetterFilter.parse({name: value for name, value in given if name not in ("after", "size")})


def _name(name: str) -> str:
    kept = " ".join(storable(name).split())
    if not kept:
        raise BadView("A view needs a name.")
    if len(kept) > MAX_NAME:
        raise BadView(f"A name has at most {MAX_NAME} characters; this one has {len(kept)}.")
    return kept


def _bounded(query: str) -> str:
    if len(query) > MAX_QUERY:
        raise BadView("This filter is too long to be kept.")
    return query


def _seen_by(user: Any) -> Q:
    return Q(owner_id=str(user.pk)) | Q(is_shared=True)


def _require(user: Any, permission: str) -> None:
    if not user.is_authenticated or not user.has_perm(permission):
        raise PermissionDenied(permission)
