"""What is new since a person's last visit of the overview: marked, told, and not lost by a reload."""

import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from deadletters import counting
from deadletters.models import (
    FailureGroup,
    LastVisit,
    OperatorAction,
)
from deadletters.queries import visits
from tests.factories import a_letter
from tests.web.regions import OVERVIEW, region_of, total_of, visited

pytestmark = pytest.mark.django_db


def test_marks_are_on_what_appeared_or_came_back_since_the_last_visit(page, operator):
    since = visited(operator)
    for name in ("Old", "Fresh", "Back"):
        a_letter(error=f"shop.{name}: gone", dead_lettered_at=timezone.now())
    counting.fold()
    FailureGroup.objects.exclude(title="Fresh").update(first_seen_at=since - timedelta(days=1))
    FailureGroup.objects.filter(title="Back").update(state="regressed", state_at=timezone.now())

    response = page.get(OVERVIEW)
    marked = {line.group.title: line.is_new for line in response.context["parts"]["groups"]["value"]}
    assert marked == {"Old": False, "Fresh": True, "Back": True}
    assert response.content.decode().count("new since your last visit") == 2
    shift = response.context["parts"]["shift"]["value"]
    assert (shift.letters, shift.groups, shift.new, shift.regressed) == (3, 3, 1, 1)
    address = re.search(r'href="(/letters/\?since=[^"]+)"', response.content.decode())[1]
    assert total_of(page, unescape(address)) == "3"


def test_a_reload_does_not_take_the_marks_away_and_a_pause_begins_another_visit(page, operator):
    first = visited(operator)
    for _ in range(2):
        assert page.get(OVERVIEW).context["asked"].since == first
    assert visits.since(operator) == first
    assert LastVisit.objects.count() == 1

    gone = timezone.now() - timedelta(minutes=31)
    LastVisit.objects.update(seen_at=gone)
    assert page.get(OVERVIEW).context["asked"].since == gone


def test_a_poll_is_no_visit(page, operator):
    first = visited(operator)

    region_of(page, "groups")
    assert LastVisit.objects.get().seen_at == first


def test_at_the_first_visit_nothing_is_new(page, operator):
    a_letter()
    counting.fold()

    response = page.get(OVERVIEW)
    assert response.context["asked"].since is None
    assert "Since your last visit" not in response.content.decode()
    assert not response.context["parts"]["groups"]["value"][0].is_new
    assert visits.since(AnonymousUser()) is None


def test_what_others_did_since_is_shown_masked_and_leads_to_the_audit(page, operator):
    visited(operator)
    group = uuid4()
    for actor_id, reason in ((str(operator.pk), "mine"), ("99", "token=hunter2secret"), ("98", "x")):
        OperatorAction.objects.create(actor=f"a{actor_id}", actor_id=actor_id, action="pause", reason=reason)
    OperatorAction.objects.create(
        at=timezone.now() - timedelta(days=2), actor="before", actor_id="97", action="pause", group_id=group
    )

    page.get(OVERVIEW)
    content = region_of(page, "others").content.decode()
    assert "a99" in content
    assert "a98" in content
    assert f"a{operator.pk}<" not in content
    assert "before" not in content
    assert "hunter2secret" not in content
    assert "/audit/?since=" in content or "/audit?since=" in content
