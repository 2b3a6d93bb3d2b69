"""Visits of people, in SQL."""

from django.db import migrations

from deadletters.sql import HERE
from queues.sql import run


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0005_runs')]

    operations = [
        run(
            'visits_v1',
            folder=HERE,
            reverse='DROP FUNCTION note_visit(text, text, interval, timestamptz)',
        ),
    ]
