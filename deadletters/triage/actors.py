"""Who may act."""

from typing import Any

from django.core.exceptions import PermissionDenied

from deadletters.store.audit import Actor


def actor(user: Any, permission: str) -> Actor:
    """Return the user as an actor; raises PermissionDenied without the permission."""
    if not user.is_authenticated or not user.has_perm(permission):
        raise PermissionDenied(permission)
    return Actor(name=user.get_username(), id=str(user.pk))
