-- What a move of rows without streams writes, by a hand that knows them: all first deaths, nobody else's, in bounds.
WITH moves AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS m(
           dead_letter_id uuid, source_id uuid, failure_reason integer, error_text text, failure_detail jsonb,
           cause text, attempts integer, fingerprint text, fingerprint_version smallint)
), gone AS (
    DELETE FROM wh_inbox w USING moves m WHERE w.message_id = m.source_id
    RETURNING w.stream_id, w.event_data, w.metadata, w.envelope_raw, w.envelope_bytes, w.delays, w.life,
              {{snapshot}} AS source_row, w.message_type, m.*
), letters AS (
    INSERT INTO wh_dead_letters (
           dead_letter_id, source_table, source_id, stream_id, message_type, envelope, metadata, envelope_raw,
           envelope_bytes, failure_reason, error_text, error_line, failure_detail, cause, attempts_when_dlq,
           delays_when_dlq, life, dead_lettered_at, first_dead_lettered_at, dead_lettered_by, generation,
           error_fingerprint, error_fingerprint_version, next_recovery_at, source_row)
    SELECT g.dead_letter_id, 'wh_inbox', g.source_id, g.stream_id, g.message_type,
           jsonb_build_object('event_data', g.event_data, 'metadata', g.metadata), g.metadata, g.envelope_raw,
           g.envelope_bytes, g.failure_reason, g.error_text, left(split_part(g.error_text, E'\n', 1), 300),
           g.failure_detail, g.cause, g.attempts, g.delays, g.life, now(), now(),
           '00000000-0000-0000-0000-000000000007', 'build-1', g.fingerprint, g.fingerprint_version,
           now() + interval '1 hour' * random(), g.source_row
      FROM gone g
), died AS (
    INSERT INTO dead_letter_deaths (
           dead_letter_id, number, dead_lettered_at, dead_lettered_by, generation, life, cause, failure_reason,
           error_text, failure_detail, error_fingerprint, error_fingerprint_version, attempts, delays)
    SELECT g.dead_letter_id, 1, now(), '00000000-0000-0000-0000-000000000007', 'build-1', g.life, g.cause,
           g.failure_reason, g.error_text, g.failure_detail, g.fingerprint, g.fingerprint_version, g.attempts, g.delays
      FROM gone g
), subjects AS (
    INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
    SELECT g.dead_letter_id, s.number, s.subject ->> 'type', s.subject ->> 'id',
           dead_letter_subject_key(s.subject ->> 'type', s.subject ->> 'id')
      FROM gone g
     CROSS JOIN LATERAL jsonb_array_elements(g.failure_detail -> 'subjects') WITH ORDINALITY AS s(subject, number)
    RETURNING subject_key, type, id
), of_subjects AS (
    INSERT INTO subject_deltas (subject_key, subject_type, subject_id, recovery_status, n, seen_at)
    SELECT subject_key, min(type), min(id), 0, count(*), now() FROM subjects GROUP BY subject_key
), of_groups AS (
    INSERT INTO group_deltas (fingerprint, version, source_table, recovery_status, operator_disposition, n, deaths,
                              hour, generation, seen_at)
    SELECT fingerprint, fingerprint_version, 'wh_inbox', 0, 0, count(*), count(*), date_trunc('hour', now()),
           'build-1', now()
      FROM gone GROUP BY fingerprint, fingerprint_version
)
INSERT INTO flow_deltas (source, died) SELECT 'wh_inbox', count(*) FROM gone
