-- Tells of deaths: for each letter whose type somebody reacts to one message of the type `dead_letter:` and its own
-- goes into the inbox, in the caller's transaction.
--
-- Its id comes from the letter and the number of the death, so that each death is told once. Payload: {dead_letter_id,
-- source, message_id, type, perspective, stream_id, cause, reason, attempts, deaths, generation, failure}; failure is
-- null when nothing was recorded, else {text, subjects, detail}: text is the error as it is stored, subjects and
-- detail are absent in an unattributed one. What another writer's failure has too much of for a message is left out,
-- and the detail says so. The dead message's own body stays in the letter. Returns how many were told.
CREATE FUNCTION announce_deaths(p_letters uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_told integer;
BEGIN
    INSERT INTO wh_inbox (message_id, message_type, event_data, metadata, envelope_bytes)
    SELECT md5('death ' || l.deaths || ' of ' || l.dead_letter_id)::uuid, 'dead_letter:' || l.message_type, t.told,
           '{}', octet_length(t.told::text)
      FROM unnest(p_letters) AS p(id)
     CROSS JOIN LATERAL (
           SELECT * FROM wh_dead_letters l WHERE l.dead_letter_id = p.id LIMIT 1) l
      JOIN dead_letter_subscriptions s ON s.message_type = l.message_type
     CROSS JOIN LATERAL (SELECT jsonb_build_object(
               'dead_letter_id', l.dead_letter_id, 'source', l.source_table, 'message_id', l.source_id,
               'type', l.message_type, 'perspective', l.perspective_name, 'stream_id', l.stream_id,
               'cause', l.cause, 'reason', l.failure_reason, 'attempts', l.attempts_when_dlq, 'deaths', l.deaths,
               'generation', l.generation,
               'failure', dead_letter_told_failure(l.error_text, l.failure_detail)) AS told) t
     ORDER BY l.dead_letter_id
    ON CONFLICT (message_id) DO NOTHING;
    GET DIAGNOSTICS v_told = ROW_COUNT;
    RETURN v_told;
END $$;

-- A recorded failure as a reaction is told of it; NULL when nothing was recorded. At most 50,000 characters of the
-- text, which is more than this library writes; a structure only if any reader can take it: not deep, large, or with
-- numbers of thousands of digits.
CREATE FUNCTION dead_letter_told_failure(p_text text, p_detail jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_text IS NULL AND p_detail IS NULL THEN NULL
                ELSE CASE
                    WHEN p_detail IS NULL OR jsonb_typeof(p_detail) <> 'object' THEN '{}'
                    WHEN octet_length(p_detail::text) > 500000 OR jsonb_path_exists(p_detail, '$.**{40}')
                      OR jsonb_path_exists(p_detail, '$.** ? (@ > 1e1000 || @ < -1e1000)')
                    THEN '{"detail": {"… detail": "left out: too large or too deep to be told; the letter has it"}}'
                    ELSE p_detail
                END || jsonb_build_object('text', left(p_text, 50000)) END
$$;
