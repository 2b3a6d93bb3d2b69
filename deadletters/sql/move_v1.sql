-- Moves rows of a work table to the dead letters, all in the caller's transaction: the row goes, its snapshot,
-- its death and its subjects come. A row that was re-emitted from a letter, or whose id is dead already,
-- re-opens that letter.
--
-- p_moves: array of objects {dead_letter_id, source_id, failure_reason, error_text, failure_detail, cause,
-- last_reported_error, attempts, fingerprint, fingerprint_version}; `attempts` is absolute and defaults to the
-- row's. p_lease_token: only rows (or streams) held under it are moved. Without it a row under a live lease of another
-- instance is left alone unless p_force. p_now: defaults to the database clock.
-- Returns one row for each row moved: its id and the id of the letter that now holds it. No row = it was gone
-- already, or is held by somebody else. Raises for an unknown source table.
-- Locks: letters in id order, then work rows, then the rest.
CREATE FUNCTION move_batch_to_dead_letters(
    p_source_table text, p_moves jsonb, p_instance_id uuid, p_generation text, p_lease_token uuid DEFAULT NULL,
    p_force boolean DEFAULT false, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (source_id uuid, dead_letter_id uuid) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_moved jsonb;
BEGIN
    IF p_source_table IS DISTINCT FROM 'wh_inbox' THEN
        RAISE EXCEPTION 'unknown source table %', coalesce(quote_literal(p_source_table), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Known: wh_inbox.';
    END IF;

    PERFORM 1 FROM wh_dead_letters l
     WHERE l.superseded_by IS NULL AND (
           l.dead_letter_id IN (
               SELECT w.dead_letter_id FROM wh_inbox w
                 JOIN jsonb_to_recordset(p_moves) AS m(source_id uuid) ON w.message_id = m.source_id)
           OR (l.source_table = p_source_table AND l.source_id IN (
               SELECT m.source_id FROM jsonb_to_recordset(p_moves) AS m(source_id uuid))))
     ORDER BY l.dead_letter_id
       FOR UPDATE;

    WITH moves AS (
        SELECT * FROM jsonb_to_recordset(p_moves) AS m(
               dead_letter_id uuid, source_id uuid, failure_reason integer, error_text text, failure_detail jsonb,
               cause text, last_reported_error text, attempts integer, fingerprint text, fingerprint_version smallint)
    ), gone AS (
        DELETE FROM wh_inbox w USING moves m
         WHERE w.message_id = m.source_id
           AND CASE WHEN p_lease_token IS NOT NULL THEN
                   w.lease_token IS NOT DISTINCT FROM p_lease_token OR EXISTS (
                       SELECT FROM wh_streams s WHERE s.queue = p_source_table AND s.stream_id = w.stream_id
                          AND s.lease_token = p_lease_token)
               ELSE p_force OR NOT (
                   coalesce(w.lease_expiry > p_now, false) AND w.instance_id IS DISTINCT FROM p_instance_id OR EXISTS (
                       SELECT FROM wh_streams s WHERE s.queue = p_source_table AND s.stream_id = w.stream_id
                          AND s.lease_expiry > p_now AND s.instance_id IS DISTINCT FROM p_instance_id))
               END
        RETURNING w AS work, m.dead_letter_id AS given_id, m.failure_reason, m.error_text,
                  nullif(m.failure_detail, 'null'::jsonb) AS failure_detail, coalesce(m.cause, 'operator') AS cause,
                  m.last_reported_error, coalesce(m.attempts, w.attempts) AS attempts, m.fingerprint,
                  m.fingerprint_version
    ), dying AS (
        SELECT g.*, coalesce(
                   (SELECT l.dead_letter_id FROM wh_dead_letters l
                     WHERE l.dead_letter_id = (g.work).dead_letter_id AND l.superseded_by IS NULL),
                   (SELECT l.dead_letter_id FROM wh_dead_letters l
                     WHERE l.source_table = p_source_table AND l.source_id = (g.work).message_id
                       AND l.superseded_by IS NULL),
                   (g.work).dead_letter_id, g.given_id) AS letter_id
          FROM gone g
    ), letters AS (
        INSERT INTO wh_dead_letters AS l (
               dead_letter_id, source_table, source_id, stream_id, message_type, envelope, metadata, envelope_raw,
               envelope_bytes, failure_reason, error_text, error_line, failure_detail, cause, attempts_when_dlq,
               delays_when_dlq, life, dead_lettered_at, first_dead_lettered_at, dead_lettered_by, generation,
               error_fingerprint, error_fingerprint_version, source_row)
        SELECT d.letter_id, p_source_table, (d.work).message_id, (d.work).stream_id, (d.work).message_type,
               jsonb_build_object('event_data', (d.work).event_data, 'metadata', (d.work).metadata),
               (d.work).metadata, (d.work).envelope_raw, (d.work).envelope_bytes, d.failure_reason, d.error_text,
               dead_letter_line(d.error_text), d.failure_detail, d.cause, d.attempts, (d.work).delays, (d.work).life,
               p_now, p_now, p_instance_id, p_generation, d.fingerprint, d.fingerprint_version,
               to_jsonb(d.work) - '{event_data,metadata,envelope_raw}'::text[]
          FROM dying d
        ON CONFLICT (dead_letter_id) DO UPDATE
           SET source_id = excluded.source_id, stream_id = excluded.stream_id,
               message_type = excluded.message_type, envelope = excluded.envelope, metadata = excluded.metadata,
               envelope_raw = excluded.envelope_raw, envelope_bytes = excluded.envelope_bytes,
               failure_reason = excluded.failure_reason, error_text = excluded.error_text,
               error_line = excluded.error_line, failure_detail = excluded.failure_detail, cause = excluded.cause,
               attempts_when_dlq = excluded.attempts_when_dlq, delays_when_dlq = excluded.delays_when_dlq,
               life = excluded.life, dead_lettered_at = excluded.dead_lettered_at,
               dead_lettered_by = excluded.dead_lettered_by, generation = excluded.generation,
               error_fingerprint = excluded.error_fingerprint,
               error_fingerprint_version = excluded.error_fingerprint_version, source_row = excluded.source_row,
               deaths = l.deaths + 1, row_version = l.row_version + 1, recovered_at = NULL, next_recovery_at = NULL,
               recovery_status = CASE l.operator_disposition WHEN 2 THEN 2 WHEN 3 THEN 4 ELSE 0 END
        RETURNING l.dead_letter_id, l.source_id, l.deaths
    ), judged AS (
        UPDATE dead_letter_deaths e
           SET verdict = 'failed_again', verdict_at = p_now
          FROM letters l
         WHERE e.dead_letter_id = l.dead_letter_id AND e.number = l.deaths - 1
           AND e.recovery_sent_at IS NOT NULL AND e.verdict IS NULL
    ), died AS (
        INSERT INTO dead_letter_deaths (dead_letter_id, number, dead_lettered_at, dead_lettered_by, generation, life,
               cause, failure_reason, error_text, last_reported_error, failure_detail, attempts, delays)
        SELECT l.dead_letter_id, l.deaths, p_now, p_instance_id, p_generation, (d.work).life, d.cause,
               d.failure_reason, d.error_text, d.last_reported_error, d.failure_detail, d.attempts, (d.work).delays
          FROM dying d JOIN letters l ON l.dead_letter_id = d.letter_id
        RETURNING dead_letter_id
    )
    SELECT jsonb_agg(jsonb_build_object('source_id', l.source_id, 'dead_letter_id', l.dead_letter_id))
      INTO v_moved FROM letters l JOIN died USING (dead_letter_id);

    DELETE FROM dead_letter_subjects s
     USING jsonb_to_recordset(v_moved) AS m(dead_letter_id uuid) WHERE s.dead_letter_id = m.dead_letter_id;
    INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
    SELECT l.dead_letter_id, s.number, s.subject ->> 'type', s.subject ->> 'id',
           dead_letter_subject_key(s.subject ->> 'type', s.subject ->> 'id')
      FROM jsonb_to_recordset(v_moved) AS m(dead_letter_id uuid)
      JOIN wh_dead_letters l ON l.dead_letter_id = m.dead_letter_id
     CROSS JOIN LATERAL jsonb_array_elements(
           CASE WHEN jsonb_typeof(l.failure_detail -> 'subjects') = 'array'
                THEN l.failure_detail -> 'subjects' ELSE '[]'::jsonb END) WITH ORDINALITY AS s(subject, number)
     WHERE s.subject ->> 'type' IS NOT NULL AND s.subject ->> 'id' IS NOT NULL AND s.number <= 1000;

    RETURN QUERY SELECT m.source_id, m.dead_letter_id
      FROM jsonb_to_recordset(v_moved) AS m(source_id uuid, dead_letter_id uuid);
END $$;

-- Moves one row: the signature of the source system, with our arguments behind it.
--
-- Returns the id of the letter that now holds the message (an earlier one when the message died before), or
-- NULL when somebody moved it first or holds it under a live lease. See move_batch_to_dead_letters.
CREATE FUNCTION move_to_dead_letters(
    p_dead_letter_id uuid, p_source_table text, p_source_id uuid, p_failure_reason integer, p_error_text text,
    p_instance_id uuid, p_generation text, p_failure_detail jsonb DEFAULT NULL,
    p_cause text DEFAULT 'budget_spent', p_lease_token uuid DEFAULT NULL, p_force boolean DEFAULT false
) RETURNS uuid LANGUAGE sql AS $$
    SELECT dead_letter_id FROM move_batch_to_dead_letters(
        p_source_table,
        jsonb_build_array(jsonb_build_object(
            'dead_letter_id', p_dead_letter_id, 'source_id', p_source_id, 'failure_reason', p_failure_reason,
            'error_text', p_error_text, 'failure_detail', p_failure_detail, 'cause', p_cause)),
        p_instance_id, p_generation, p_lease_token, p_force)
$$;
