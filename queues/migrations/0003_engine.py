"""Claims, outcomes and order of each work table, in SQL."""

from django.db import migrations

from queues.sql import WORK_TABLES, run


def of_each_table(name, reverse):
    return [run(name, reverse, names=names) for names in WORK_TABLES.values()]


class Migration(migrations.Migration):

    dependencies = [('queues', '0002_delivery_log')]

    operations = [
        run(
            'flows_v1',
            reverse="""
                DROP FUNCTION source_flows();
                DROP FUNCTION fold_flow_deltas(integer);
                DROP FUNCTION count_truncated_work();
                ALTER TABLE flow_totals RESET (fillfactor);
                ALTER TABLE flow_deltas RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
            """,
        ),
        *of_each_table(
            'work_table_v1',
            """
                DROP TRIGGER {{work}}_truncated ON {{work}};
                DROP TRIGGER {{work}}_sooner ON {{work}};
                DROP FUNCTION {{work}}_sooner();
                DROP TRIGGER {{work}}_removed ON {{work}};
                DROP FUNCTION {{work}}_removed();
                DROP TRIGGER {{work}}_arrivals ON {{work}};
                DROP FUNCTION {{work}}_arrivals();
                DROP TRIGGER {{work}}_due_now ON {{work}};
                DROP FUNCTION {{work}}_due_now();
                ALTER TABLE {{work}}
                    RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
                ALTER TABLE {{work}} ALTER COLUMN position DROP IDENTITY;
            """,
        ),
        run(
            'streams_v1',
            reverse="""
                DROP FUNCTION try_circuits(text, interval, timestamptz);
                DROP FUNCTION hold_streams(jsonb, uuid);
                DROP FUNCTION let_stream_go(text, uuid, timestamptz);
                DROP FUNCTION let_streams_go(jsonb, timestamptz);
                DROP FUNCTION admit_arrivals(text, integer, timestamptz);
                DROP FUNCTION never();
                ALTER TABLE wh_streams RESET (fillfactor);
            """,
        ),
        *of_each_table(
            'claim_v1',
            """
                DROP FUNCTION renew_{{work}}(text, uuid, uuid[], uuid[], interval);
                DROP FUNCTION fence_{{work}}(text, uuid, uuid[], uuid[]);
                DROP FUNCTION release_{{work}}(text, uuid, uuid[], uuid[]);
                DROP FUNCTION release_streams_{{work}}(text, uuid, uuid[]);
                DROP FUNCTION claim_{{work}}(
                    text, uuid, uuid, integer, integer, interval, text, text[], timestamptz);
                DROP FUNCTION due_lanes_{{work}}(text, integer, timestamptz);
                DROP FUNCTION is_lane_due_{{work}}(text, timestamptz);
                DROP FUNCTION blocked_{{work}}(timestamptz);
            """,
        ),
        *of_each_table(
            'outcomes_v1',
            """
                DROP FUNCTION start_{{work}}(text, uuid, uuid);
                DROP FUNCTION record_{{work}}(uuid[], jsonb, uuid, uuid[]);
            """,
        ),
        run(
            'events_v1',
            names=WORK_TABLES['wh_perspective_events'],
            reverse="""
                DROP FUNCTION move_cursors(text, uuid[], uuid[], integer[], integer[]);
                DROP FUNCTION append_event(uuid, uuid, text, jsonb, jsonb, bytea, integer, integer);
                DROP TRIGGER wh_event_store_feed ON wh_event_store;
                DROP FUNCTION wh_event_store_feed();
            """,
        ),
        *of_each_table(
            'live_v1',
            """
                DROP FUNCTION run_now_{{work}}(uuid);
                DROP FUNCTION stop_{{work}}(uuid, timestamptz);
                DROP FUNCTION lock_stream_of_{{work}}(uuid);
            """,
        ),
        *of_each_table('stats_v1', 'DROP FUNCTION count_{{work}}(timestamptz);'),
        run('pauses_v1', reverse='DROP FUNCTION look_again_at_streams(text[], timestamptz, integer, timestamptz)'),
        run(
            'circuits_v1',
            reverse='DROP FUNCTION note_destinations(jsonb, integer, interval, double precision, interval, timestamptz);',
        ),
    ]
