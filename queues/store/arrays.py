"""Arrays as PostgreSQL reads them: psycopg looks at each element of a list twice, to quote it and to dump it."""

from collections.abc import Iterable
from uuid import UUID


def uuids(ids: Iterable[UUID]) -> str:
    """Return the text of an array of UUIDs."""
    return "{" + ",".join(["%032x" % each.int for each in ids]) + "}"  # noqa: UP031 - half the time of the others
