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

-- Writes the subjects of letters that died again: at most 1,000 of each, each once.
--
-- p_again: array of objects {dead_letter_id, deaths}. The subjects of an earlier death go, unless nothing was recorded
-- of this one: the message is still about them. A first death (1) is passed over. Each letter is looked up by its key,
-- whatever the planner knows of the tables.
CREATE FUNCTION write_dead_letter_subjects(p_again jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_reopened uuid[] := ARRAY(
        SELECT m.dead_letter_id FROM jsonb_to_recordset(p_again) AS m(dead_letter_id uuid, deaths integer)
         CROSS JOIN LATERAL (
               SELECT l.failure_detail FROM wh_dead_letters l WHERE l.dead_letter_id = m.dead_letter_id LIMIT 1) l
         WHERE m.deaths > 1 AND jsonb_path_exists(l.failure_detail, '$.subjects[*]'));
BEGIN
    IF cardinality(v_reopened) = 0 THEN
        RETURN;
    END IF;
    DELETE FROM dead_letter_subjects s WHERE s.dead_letter_id = ANY (v_reopened);
    INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
    SELECT k.dead_letter_id, min(k.number), min(k.type), min(k.id), k.key
      FROM (SELECT m.id AS dead_letter_id, s.number, s.subject ->> 'type' AS type, s.subject ->> 'id' AS id,
                   dead_letter_subject_key(s.subject ->> 'type', s.subject ->> 'id') AS key
              FROM unnest(v_reopened) AS m(id)
             CROSS JOIN LATERAL (
                   SELECT l.failure_detail -> 'subjects' AS subjects FROM wh_dead_letters l
                    WHERE l.dead_letter_id = m.id LIMIT 1) l
             CROSS JOIN LATERAL jsonb_array_elements(
                   CASE WHEN jsonb_typeof(l.subjects) = 'array' THEN l.subjects ELSE '[]'::jsonb END)
                   WITH ORDINALITY AS s(subject, number)
             WHERE s.number <= 1000) k
     WHERE k.key IS NOT NULL
     GROUP BY k.dead_letter_id, k.key;
END $$;

-- Writes the verdicts of recoveries whose messages died again: on the death before, and on the run's item.
--
-- p_again: array of objects {dead_letter_id, deaths, item_id}; item_id: the item that sent the message, if any. An item
-- whose letter was removed meanwhile is judged by the fingerprint that it was frozen with. "No answer" is no verdict,
-- and corrected. Locks deaths and items; the caller has the letters.
CREATE FUNCTION judge_deaths(p_again jsonb, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_ends jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object('item_id', m.item_id, 'state', CASE
               WHEN CASE WHEN b.id IS NULL
                         THEN n.cause NOT IN ('no_handler', 'unreadable')
                              AND (n.error_fingerprint, n.error_fingerprint_version) = (i.fingerprint, i.fingerprint_version)
                         ELSE dead_letter_failed_again(b, n.cause, n.error_text, n.error_fingerprint,
                                                       n.error_fingerprint_version) END
               THEN 'failed_again' ELSE 'failed_differently' END))
      INTO v_ends
      FROM jsonb_to_recordset(p_again) AS m(dead_letter_id uuid, deaths integer, item_id uuid)
     CROSS JOIN LATERAL (SELECT * FROM recovery_items i WHERE i.item_id = m.item_id LIMIT 1) i
     CROSS JOIN LATERAL (
           SELECT * FROM dead_letter_deaths e
            WHERE e.dead_letter_id = m.dead_letter_id AND e.number = m.deaths LIMIT 1) n
      LEFT JOIN LATERAL (
           SELECT * FROM dead_letter_deaths e
            WHERE e.dead_letter_id = m.dead_letter_id AND e.number = m.deaths - 1 LIMIT 1) b ON true;

    UPDATE dead_letter_deaths e
       SET verdict = v.verdict, verdict_at = p_now
      FROM (SELECT b.id, CASE WHEN dead_letter_failed_again(b, n.cause, n.error_text, n.error_fingerprint,
                                                            n.error_fingerprint_version)
                              THEN 'failed_again' ELSE 'failed_differently' END AS verdict
              FROM jsonb_to_recordset(p_again) AS m(dead_letter_id uuid, deaths integer)
             CROSS JOIN LATERAL (
                   SELECT * FROM dead_letter_deaths e
                    WHERE e.dead_letter_id = m.dead_letter_id AND e.number = m.deaths - 1 LIMIT 1) b
             CROSS JOIN LATERAL (
                   SELECT * FROM dead_letter_deaths e
                    WHERE e.dead_letter_id = m.dead_letter_id AND e.number = m.deaths LIMIT 1) n
             WHERE b.recovery_sent_at IS NOT NULL AND coalesce(b.verdict, 'no_answer') = 'no_answer') v
     WHERE e.id = v.id;
    IF v_ends IS NOT NULL THEN
        PERFORM end_recovery_items(v_ends, p_now);
    END IF;
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
