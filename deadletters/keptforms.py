"""Forms that people filled and have not confirmed: kept for a while, so that going back or signing in loses nothing."""

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils.crypto import get_random_string

from deadletters.models import KeptForm
from deadletters.words.errors import FormTooLong, NoSuchForm, NotYourForm

KEPT_HOURS = 24
MAX_KEPT = 10
"""Forms of one person; a newer one takes the place of the oldest."""
NAME_CHARACTERS = 22


@transaction.atomic
def keep(*, person_id: str, about: str, query: str, most: int, dead_letter_id: UUID | None = None) -> str:
    """Keep a form, urlencoded; return the name under which it is found.

    most: characters of the form. Raises FormTooLong.
    """
    if len(query) > most:
        raise FormTooLong
    name = get_random_string(NAME_CHARACTERS)
    KeptForm.objects.create(person_id=person_id, name=name, about=about, query=query, dead_letter_id=dead_letter_id)
    newest = KeptForm.objects.filter(person_id=person_id).order_by("-kept_at", "-id")
    KeptForm.objects.filter(person_id=person_id).exclude(
        pk__in=list(newest.values_list("pk", flat=True)[:MAX_KEPT])
    ).delete()
    return name


def find(*, person_id: str, about: str, name: str, dead_letter_id: UUID | None = None) -> str:
    """Return a person's form; raises NoSuchForm for one that is not kept any more, NotYourForm for another's."""
    kept = KeptForm.objects.filter(name=name, about=about, dead_letter_id=dead_letter_id).filter(kept_at__gt=_oldest())
    found = kept.values_list("person_id", "query").first()
    if found is None:
        raise NoSuchForm
    if found[0] != person_id:
        raise NotYourForm
    return found[1]


def forget(*, person_id: str, name: str) -> None:
    """Forget a form that was sent."""
    KeptForm.objects.filter(person_id=person_id, name=name).delete()


def forget_old() -> None:
    """Forget the forms that nobody sent in KEPT_HOURS."""
    KeptForm.objects.filter(kept_at__lte=_oldest()).delete()


def _oldest() -> object:
    return Now() - timedelta(hours=KEPT_HOURS)
