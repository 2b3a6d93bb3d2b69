"""When people looked at the dashboard last: what is newer is new to them."""

from datetime import datetime
from typing import Any

from deadletters.models import FailureGroup, GroupState, LastVisit
from deadletters.models.records import DASHBOARD


def since(user: Any) -> datetime | None:
    """Return when the user's visit before the present one ended; None = there was none, so that nothing is new."""
    if not user.is_authenticated:
        return None
    visits = LastVisit.objects.filter(visitor_id=str(user.pk), page=DASHBOARD)
    return visits.values_list("previous_at", flat=True).first()


def is_new(group: FailureGroup, since: datetime | None) -> bool:
    """Say whether a fault appeared, or came back, after a visit."""
    if since is None:
        return False
    came_back = group.state == GroupState.REGRESSED and group.state_at > since
    return group.first_seen_at > since or came_back
