-- The move as it is called, and what it shares between the sources.

-- The stored error of a row behind the caller's, as one text; NULL only when neither says anything.
CREATE FUNCTION dead_letter_joined_error(p_given text, p_stored text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN nullif(p_stored, '') IS NULL OR p_stored = p_given THEN p_given
                WHEN p_given IS NULL THEN p_stored
                ELSE p_given || E'\nlast error: ' || p_stored END
$$;

-- Says whether a death is the same fault as the one before it: cause and fingerprint agree, at one version. Of a
-- message that could not be run at all nothing is known, so that is another fault.
CREATE FUNCTION dead_letter_failed_again(
    p_before dead_letter_deaths, p_cause text, p_error text, p_fingerprint varchar, p_version smallint
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_cause = p_before.cause AND p_cause NOT IN ('no_handler', 'unreadable')
       AND CASE WHEN p_version = p_before.error_fingerprint_version
                THEN p_fingerprint = p_before.error_fingerprint
                ELSE dead_letter_error_fingerprint(p_error)
                     IS NOT DISTINCT FROM dead_letter_error_fingerprint(p_before.error_text) END
$$;

-- Writes the subjects of letters' latest failures: at most 1,000 of each, each once.
--
-- p_moved: array of objects {dead_letter_id, deaths}. The subjects of an earlier death go, unless nothing was
-- recorded of this one: the message is still about them. Each letter is looked up by its key, whatever the planner
-- knows of the tables.
CREATE FUNCTION write_dead_letter_subjects(p_moved jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_reopened uuid[] := ARRAY(
        SELECT m.dead_letter_id FROM jsonb_to_recordset(p_moved) AS m(dead_letter_id uuid, deaths integer)
         WHERE m.deaths > 1 AND EXISTS (
               SELECT FROM wh_dead_letters l
                WHERE l.dead_letter_id = m.dead_letter_id AND jsonb_path_exists(l.failure_detail, '$.subjects[*]')));
BEGIN
    IF cardinality(v_reopened) > 0 THEN
        DELETE FROM dead_letter_subjects s WHERE s.dead_letter_id = ANY (v_reopened);
    END IF;
    INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
    SELECT f.dead_letter_id, f.number, f.type, f.id, f.key FROM (
        SELECT DISTINCT ON (k.dead_letter_id, k.key) k.* FROM (
            SELECT m.dead_letter_id, s.number, s.subject ->> 'type' AS type, s.subject ->> 'id' AS id,
                   dead_letter_subject_key(s.subject ->> 'type', s.subject ->> 'id') AS key
              FROM jsonb_to_recordset(p_moved) AS m(dead_letter_id uuid)
             CROSS JOIN LATERAL (
                   SELECT l.failure_detail -> 'subjects' AS subjects FROM wh_dead_letters l
                    WHERE l.dead_letter_id = m.dead_letter_id LIMIT 1) l
             CROSS JOIN LATERAL jsonb_array_elements(
                   CASE WHEN jsonb_typeof(l.subjects) = 'array' THEN l.subjects ELSE '[]'::jsonb END)
                   WITH ORDINALITY AS s(subject, number)
             WHERE s.number <= 1000) k
         WHERE k.key IS NOT NULL
         ORDER BY k.dead_letter_id, k.key, k.number) f;
END $$;

-- Moves a batch of one source; see move_wh_inbox. Raises for a source table that is not known.
CREATE FUNCTION move_batch_to_dead_letters(
    p_source_table text, p_moves jsonb, p_instance_id uuid, p_generation text, p_lease_token uuid DEFAULT NULL,
    p_force boolean DEFAULT false, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (source_id uuid, dead_letter_id uuid) LANGUAGE plpgsql AS $$
BEGIN
    CASE p_source_table
    WHEN 'wh_inbox' THEN
        RETURN QUERY SELECT * FROM move_wh_inbox(p_moves, p_instance_id, p_generation, p_lease_token, p_force, p_now);
    WHEN 'wh_outbox' THEN
        RETURN QUERY SELECT * FROM move_wh_outbox(p_moves, p_instance_id, p_generation, p_lease_token, p_force, p_now);
    WHEN 'wh_perspective_events' THEN
        RETURN QUERY SELECT * FROM move_wh_perspective_events(
            p_moves, p_instance_id, p_generation, p_lease_token, p_force, p_now);
    ELSE
        RAISE EXCEPTION 'unknown source table %', coalesce(quote_literal(p_source_table), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Known: wh_inbox, wh_outbox, wh_perspective_events.';
    END CASE;
END $$;

-- Moves one row: the signature of the source system, with our arguments behind it.
--
-- The failure that the row has stored is added to the given one: its error behind the given text, its subjects and
-- detail where none are given. Returns the id of the letter that now holds the message (an earlier one when the
-- message died before), or NULL when somebody moved it first or holds it under a live lease.
CREATE FUNCTION move_to_dead_letters(
    p_dead_letter_id uuid, p_source_table text, p_source_id uuid, p_failure_reason integer, p_error_text text,
    p_instance_id uuid, p_generation text, p_failure_detail jsonb DEFAULT NULL,
    p_cause text DEFAULT 'budget_spent', p_lease_token uuid DEFAULT NULL, p_force boolean DEFAULT false
) RETURNS uuid LANGUAGE sql AS $$
    SELECT dead_letter_id FROM move_batch_to_dead_letters(
        p_source_table,
        jsonb_build_array(jsonb_build_object(
            'dead_letter_id', p_dead_letter_id, 'source_id', p_source_id, 'failure_reason', p_failure_reason,
            'error_text', p_error_text, 'failure_detail', p_failure_detail, 'cause', p_cause, 'with_stored', true)),
        p_instance_id, p_generation, p_lease_token, p_force)
$$;
