-- The row goes and its letter comes, as few columns as the table allows: what every move costs at the least.
WITH moves AS (
    SELECT m.source_id, m.dead_letter_id FROM jsonb_to_recordset(%s::jsonb) AS m(dead_letter_id uuid, source_id uuid)
), gone AS (
    DELETE FROM wh_inbox w USING moves m WHERE w.message_id = m.source_id
    RETURNING m.dead_letter_id, w.message_id, w.message_type, w.event_data, w.metadata, w.attempts
)
INSERT INTO wh_dead_letters (
       dead_letter_id, source_table, source_id, message_type, envelope, metadata, failure_reason, error_text,
       attempts_when_dlq, generation, error_fingerprint, error_fingerprint_version, next_recovery_at)
SELECT g.dead_letter_id, 'wh_inbox', g.message_id, g.message_type,
       jsonb_build_object('event_data', g.event_data, 'metadata', g.metadata), g.metadata, 99, 'declined', g.attempts,
       'build-1', '00000000000000ab', 2, now() + interval '1 hour' * random()
  FROM gone g
