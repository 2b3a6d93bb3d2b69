-- Moves rows of {{work}} to the dead letters, all in the caller's transaction: the row goes, its snapshot, its
-- death and its subjects come. A row that was re-emitted from a letter, or whose id is dead already, re-opens that
-- letter.
--
-- p_moves: array of objects {dead_letter_id, source_id, failure_reason, error_text, failure_detail, cause,
-- last_reported_error, attempts, fingerprint, fingerprint_version, with_stored, holds}; `attempts` is absolute and
-- defaults to the row's; `with_stored`: the failure that the row has stored is added to the given one; `holds`: the
-- row's stream waits behind it, by default {{holds}}. p_lease_token: only
-- rows (or streams) held under it are moved. Without it a row under a live lease of another instance is left alone
-- unless p_force.
-- Returns one row for each row moved: its id and the id of the letter that now holds it, which is the given one only
-- if no other letter has it. No row = it was gone already, or is held by somebody else.
-- Locks: letters in id order, then the streams that are to wait, then work rows, then the rest.
CREATE FUNCTION move_{{work}}(
    p_moves jsonb, p_instance_id uuid, p_generation text, p_lease_token uuid, p_force boolean, p_now timestamptz
) RETURNS TABLE (source_id uuid, dead_letter_id uuid) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_sources uuid[] := ARRAY(SELECT m.source_id FROM jsonb_to_recordset(p_moves) AS m(source_id uuid));
    v_letters uuid[];
    v_moved jsonb;
    v_lost boolean;
    v_held jsonb;
    v_given_up jsonb;
    v_answers jsonb;
BEGIN
    v_letters := ARRAY(
        SELECT w.dead_letter_id FROM {{work}} w WHERE w.{{id}} = ANY (v_sources) AND w.dead_letter_id IS NOT NULL
        UNION
        SELECT l.dead_letter_id FROM unnest(v_sources) AS s(id)
         CROSS JOIN LATERAL (
               SELECT l.dead_letter_id FROM wh_dead_letters l
                WHERE l.source_id = s.id AND l.source_table = '{{work}}' AND l.superseded_by IS NULL LIMIT 1) l);
    IF cardinality(v_letters) > 0 THEN
        PERFORM 1 FROM wh_dead_letters l
         WHERE l.dead_letter_id = ANY (v_letters) AND l.superseded_by IS NULL
         ORDER BY l.dead_letter_id
           FOR UPDATE;
    END IF;

    PERFORM 1 FROM jsonb_to_recordset(p_moves) AS m(source_id uuid, holds boolean)
       JOIN {{work}} w ON w.{{id}} = m.source_id AND w.{{id}} = ANY (v_sources)
       JOIN wh_streams s ON s.queue = {{queue}} AND s.stream_id = w.stream_id
      WHERE coalesce(m.holds, {{holds}})
      ORDER BY s.queue, s.stream_id
        FOR UPDATE OF s;

    WITH moves AS (
        SELECT * FROM jsonb_to_recordset(p_moves) AS m(
               dead_letter_id uuid, source_id uuid, failure_reason integer, error_text text, failure_detail jsonb,
               cause text, last_reported_error text, attempts integer, fingerprint text, fingerprint_version smallint,
               with_stored boolean, holds boolean)
    ), gone AS (
        DELETE FROM {{work}} w USING moves m
         WHERE w.{{id}} = ANY (v_sources) AND w.{{id}} = m.source_id
           AND CASE WHEN p_lease_token IS NOT NULL THEN
                   w.lease_token IS NOT DISTINCT FROM p_lease_token OR EXISTS (
                       SELECT FROM wh_streams s WHERE s.queue = {{queue}} AND s.stream_id = w.stream_id
                          AND s.lease_token = p_lease_token)
               ELSE p_force OR NOT (
                   coalesce(w.lease_expiry > p_now, false) AND w.instance_id IS DISTINCT FROM p_instance_id OR EXISTS (
                       SELECT FROM wh_streams s WHERE s.queue = {{queue}} AND s.stream_id = w.stream_id
                          AND s.lease_expiry > p_now AND s.instance_id IS DISTINCT FROM p_instance_id))
               END
        RETURNING w.*, m.dead_letter_id AS given_id, m.failure_reason AS given_reason,
                  CASE WHEN m.with_stored THEN dead_letter_joined_error(m.error_text, w.error) ELSE m.error_text END
                      AS given_error,
                  coalesce(nullif(m.failure_detail, 'null'::jsonb), CASE WHEN m.with_stored THEN w.failure_detail END)
                      AS given_detail,
                  coalesce(m.cause, 'operator') AS cause, coalesce(m.attempts, w.attempts) AS given_attempts,
                  m.fingerprint, m.fingerprint_version
    ), counted AS (
        INSERT INTO flow_deltas (source, died, removed)
        SELECT '{{work}}', count(*), -count(*) FROM gone HAVING count(*) > 0
    ), letters AS (
        INSERT INTO wh_dead_letters AS l (
               dead_letter_id, source_table, source_id, stream_id, message_type, destination, perspective_name,
               envelope, metadata, envelope_raw, envelope_bytes, failure_reason, error_text, error_line,
               failure_detail, cause, attempts_when_dlq, delays_when_dlq, life, dead_lettered_at,
               first_dead_lettered_at, dead_lettered_by, generation, error_fingerprint, error_fingerprint_version,
               source_row)
        SELECT coalesce(
                   (SELECT l.dead_letter_id FROM wh_dead_letters l
                     WHERE l.dead_letter_id = g.dead_letter_id AND l.superseded_by IS NULL),
                   (SELECT l.dead_letter_id FROM wh_dead_letters l
                     WHERE l.source_table = '{{work}}' AND l.source_id = g.{{id}} AND l.superseded_by IS NULL),
                   (SELECT f.id FROM (VALUES (1, g.dead_letter_id), (2, g.given_id)) AS f(rank, id)
                     WHERE NOT EXISTS (SELECT FROM wh_dead_letters l WHERE l.dead_letter_id = f.id)
                       AND f.id IS NOT NULL ORDER BY f.rank LIMIT 1),
                   gen_random_uuid()),
               '{{work}}', g.{{id}}, g.stream_id, {{message_type}}, {{destination}}, {{perspective_name}}, {{envelope}},
               {{metadata}}, {{envelope_raw}}, g.envelope_bytes, g.given_reason, g.given_error,
               dead_letter_line(g.given_error), g.given_detail, g.cause, g.given_attempts, g.delays, g.life, p_now,
               p_now, p_instance_id, p_generation, g.fingerprint, g.fingerprint_version,
               {{snapshot}}
          FROM gone g{{from_event}}
        ON CONFLICT (dead_letter_id) DO UPDATE
           SET source_table = excluded.source_table, source_id = excluded.source_id, stream_id = excluded.stream_id,
               message_type = excluded.message_type, destination = excluded.destination,
               perspective_name = excluded.perspective_name, envelope = excluded.envelope,
               metadata = excluded.metadata, envelope_raw = excluded.envelope_raw,
               envelope_bytes = excluded.envelope_bytes, failure_reason = excluded.failure_reason,
               error_text = excluded.error_text, error_line = excluded.error_line,
               failure_detail = excluded.failure_detail, cause = excluded.cause,
               attempts_when_dlq = excluded.attempts_when_dlq, delays_when_dlq = excluded.delays_when_dlq,
               life = excluded.life, dead_lettered_at = excluded.dead_lettered_at,
               dead_lettered_by = excluded.dead_lettered_by, generation = excluded.generation,
               error_fingerprint = excluded.error_fingerprint,
               error_fingerprint_version = excluded.error_fingerprint_version, fingerprint_checked_at = NULL,
               source_row = excluded.source_row, deaths = l.deaths + 1, row_version = l.row_version + 1,
               recovered_at = NULL, next_recovery_at = NULL,
               recovery_attempts = CASE
                   WHEN l.retried_on_generations @> ARRAY[excluded.generation] OR EXISTS (
                       SELECT FROM dead_letter_deaths e
                        WHERE e.dead_letter_id = l.dead_letter_id AND e.generation = excluded.generation)
                   THEN l.recovery_attempts ELSE 0 END,
               recovery_status = CASE l.operator_disposition WHEN 2 THEN 2 WHEN 3 THEN 4 ELSE 0 END
         WHERE l.dead_letter_id = ANY (v_letters) AND l.superseded_by IS NULL
        RETURNING l.dead_letter_id, l.source_id, l.deaths, l.life, l.cause, l.failure_reason, l.error_text,
                  l.failure_detail, l.attempts_when_dlq, l.delays_when_dlq, l.error_fingerprint,
                  l.error_fingerprint_version, l.recovery_status
    ), judged AS (
        UPDATE dead_letter_deaths e
           SET verdict = CASE WHEN dead_letter_failed_again(e, l.cause, l.error_text, l.error_fingerprint,
                                                            l.error_fingerprint_version)
                              THEN 'failed_again' ELSE 'failed_differently' END,
               verdict_at = p_now
          FROM letters l
         WHERE l.deaths > 1 AND e.dead_letter_id = l.dead_letter_id AND e.number = l.deaths - 1
           AND e.recovery_sent_at IS NOT NULL AND (e.verdict IS NULL OR e.verdict = 'no_answer')
        RETURNING e.dead_letter_id, e.verdict
    ), died AS (
        INSERT INTO dead_letter_deaths (dead_letter_id, number, dead_lettered_at, dead_lettered_by, generation, life,
               cause, failure_reason, error_text, last_reported_error, failure_detail, error_fingerprint,
               error_fingerprint_version, attempts, delays)
        SELECT l.dead_letter_id, l.deaths, p_now, p_instance_id, p_generation, l.life, l.cause, l.failure_reason,
               l.error_text, m.last_reported_error, l.failure_detail, l.error_fingerprint,
               l.error_fingerprint_version, l.attempts_when_dlq, l.delays_when_dlq
          FROM letters l JOIN moves m ON m.source_id = l.source_id
    )
    SELECT jsonb_agg(jsonb_build_object('source_id', l.source_id, 'dead_letter_id', l.dead_letter_id,
                                        'deaths', l.deaths)),
           -- A message that came back holds its stream only if it still does: to let that go is a lasting decision.
           jsonb_agg(jsonb_build_object('queue', {{queue}}, 'stream_id', w.stream_id, 'position', w.position,
                                        'held_by', l.dead_letter_id))
               FILTER (WHERE w.stream_id IS NOT NULL AND w.dead_letter_id IS NULL AND l.recovery_status <> 4
                         AND coalesce(m.holds, {{holds}})),
           jsonb_agg(jsonb_build_object('queue', {{queue}}, 'stream_id', w.stream_id, 'held_by', l.dead_letter_id))
               FILTER (WHERE w.stream_id IS NOT NULL AND l.recovery_status = 4),
           count(*) <> (SELECT count(*) FROM gone),
           jsonb_agg(jsonb_build_object('item_id', w.recovery_item_id,
                                        'state', coalesce(j.verdict, 'failed_differently')))
               FILTER (WHERE w.recovery_item_id IS NOT NULL)
      INTO v_moved, v_held, v_given_up, v_lost, v_answers
      FROM letters l JOIN moves m ON m.source_id = l.source_id JOIN gone w ON w.{{id}} = l.source_id
      LEFT JOIN judged j ON j.dead_letter_id = l.dead_letter_id;
    IF v_lost THEN
        RAISE EXCEPTION 'a letter of that id was written meanwhile' USING ERRCODE = 'unique_violation';
    END IF;

    IF v_held IS NOT NULL THEN
        PERFORM hold_streams(v_held, p_lease_token);
    END IF;
    IF v_given_up IS NOT NULL THEN
        PERFORM let_streams_go(v_given_up, p_now);
    END IF;
    PERFORM write_dead_letter_subjects(v_moved);
    IF EXISTS (SELECT FROM dead_letter_subscriptions) THEN
        PERFORM announce_deaths(ARRAY(
            SELECT m.dead_letter_id FROM jsonb_to_recordset(v_moved) AS m(dead_letter_id uuid)));
    END IF;
    IF v_answers IS NOT NULL THEN
        PERFORM end_recovery_items(v_answers, p_now);
    END IF;
    RETURN QUERY SELECT m.source_id, m.dead_letter_id
      FROM jsonb_to_recordset(v_moved) AS m(source_id uuid, dead_letter_id uuid);
END $$;
