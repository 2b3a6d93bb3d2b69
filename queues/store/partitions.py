"""Months of the delivery log, made ahead."""

from django.db import connection


def make_ahead(months: int) -> int:
    """Make the missing partitions from this month to `months` ahead; return how many were made."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT make_delivery_log_partitions(%s)", [months])
        return int(cursor.fetchone()[0])
