"""How the tests of the overview read its regions and let a person visit it."""

from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from deadletters.models import (
    LastVisit,
)
from tests.web.conftest import HTMX

OVERVIEW = "/"


def region_of(page, name, **parameters):
    response = page.get(reverse("deadletters:region", args=[name]), parameters, headers=HTMX)
    assert response.status_code == 200
    return response


def value_of(page, name):
    return region_of(page, name).context["part"]["value"]


def visited(user, before=timedelta(hours=14)):
    """Note that a person looked last so long ago."""
    at = timezone.now() - before
    LastVisit.objects.create(visitor_id=str(user.pk), page="dashboard", seen_at=at)
    return at


def total_of(page, address):
    response = page.get(address)
    assert response.status_code == 200, response.content.decode()
    counted = response.context["counted"].value
    return "10,000+" if counted.is_capped else f"{counted.n:,}"
