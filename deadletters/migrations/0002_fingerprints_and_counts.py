"""Pure functions, the audit's guard, fingerprints, and the counts of groups and subjects, in SQL."""

from django.db import migrations

from deadletters.sql import HERE
from queues.sql import run


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0001_tables')]

    operations = [
        run(
            'letters_v1',
            folder=HERE,
            reverse="""
                DROP STATISTICS wh_dead_letters_owner_prefix;
                DROP STATISTICS wh_dead_letters_type_prefix;
                DROP TRIGGER operator_actions_append_only ON operator_actions;
                DROP FUNCTION operator_actions_append_only();
                DROP FUNCTION dead_letter_subject_key(text, text);
                DROP FUNCTION dead_letter_line(text);
            """,
        ),
        run(
            'fingerprints_v1',
            folder=HERE,
            reverse="""
                DROP TRIGGER wh_dead_letters_fingerprint ON wh_dead_letters;
                DROP FUNCTION wh_dead_letters_fingerprint();
                DROP FUNCTION dead_letter_cause_fingerprint(text, integer);
                DROP FUNCTION dead_letter_error_fingerprint_version();
                DROP FUNCTION dead_letter_error_fingerprint(text);
            """,
        ),
        run(
            'counts_v1',
            folder=HERE,
            reverse="""
                DROP VIEW group_totals;
                DROP FUNCTION fold_subject_deltas(integer);
                DROP FUNCTION fold_group_deltas(integer);
                DROP TRIGGER dead_letter_subjects_deleted ON dead_letter_subjects;
                DROP TRIGGER dead_letter_subjects_inserted ON dead_letter_subjects;
                DROP FUNCTION dead_letter_subjects_counted();
                DROP TRIGGER wh_dead_letters_deleted ON wh_dead_letters;
                DROP FUNCTION wh_dead_letters_deleted();
                DROP TRIGGER wh_dead_letters_updated ON wh_dead_letters;
                DROP FUNCTION wh_dead_letters_updated();
                DROP TRIGGER wh_dead_letters_inserted ON wh_dead_letters;
                DROP FUNCTION wh_dead_letters_inserted();
            """,
        ),
    ]
