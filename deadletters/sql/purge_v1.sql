-- Removes letters for good, with their deaths, subjects, payloads, notes and what people typed about them without
-- sending it; the audit stays, and so does what the deduplication knows of their ids: housekeeping forgets it when
-- it is old.
--
-- p_let_go: the streams that wait behind them run on; without it such a letter is left alone.
-- Returns for each id what became of it: 'purged'; 'recovering' (its message is out); 'kept' (a legal hold on it, its
-- group or a subject of it); 'holds its stream'; 'gone'.
-- Locks: the legal holds against new ones, letters in id order, then streams, then the rest.
CREATE FUNCTION purge_dead_letters(
    p_dead_letters uuid[], p_let_go boolean DEFAULT false, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (dead_letter_id uuid, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_purged uuid[];
    v_outcomes jsonb;
    v_held jsonb;
BEGIN
    LOCK TABLE legal_holds IN SHARE MODE;
    PERFORM 1 FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (p_dead_letters) ORDER BY l.dead_letter_id FOR UPDATE;

    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'queue', s.queue, 'stream_id', s.stream_id, 'held_by', s.held_by) ORDER BY s.queue, s.stream_id), '[]')
      INTO v_held
      FROM wh_dead_letters l
      JOIN wh_streams s ON s.queue = concat_ws(':', l.source_table, l.perspective_name) AND s.stream_id = l.stream_id
           AND s.held_by = l.dead_letter_id
     WHERE l.dead_letter_id = ANY (p_dead_letters) AND l.recovery_status <> 1;

    WITH kept AS (
        SELECT l.dead_letter_id FROM wh_dead_letters l JOIN legal_holds h ON h.dead_letter_id = l.dead_letter_id
         WHERE l.dead_letter_id = ANY (p_dead_letters) AND h.lifted_at IS NULL
        UNION
        SELECT l.dead_letter_id FROM wh_dead_letters l
          JOIN group_fingerprints f ON f.fingerprint = l.error_fingerprint AND f.version = l.error_fingerprint_version
          LEFT JOIN group_aliases a ON a.group_id = f.group_id
          JOIN legal_holds h ON h.group_id IN (f.group_id, a.alias)
         WHERE l.dead_letter_id = ANY (p_dead_letters) AND h.lifted_at IS NULL
        UNION
        SELECT s.dead_letter_id FROM dead_letter_subjects s
          JOIN legal_holds h ON h.subject_type = s.type AND h.subject_id = s.id
         WHERE s.dead_letter_id = ANY (p_dead_letters) AND h.lifted_at IS NULL
    )
    SELECT jsonb_object_agg(d.id, CASE
               WHEN l.dead_letter_id IS NULL THEN 'gone'
               WHEN l.recovery_status = 1 THEN 'recovering'
               WHEN k.dead_letter_id IS NOT NULL THEN 'kept'
               WHEN w.id IS NOT NULL AND NOT p_let_go THEN 'holds its stream'
               ELSE 'purged' END)
      INTO v_outcomes
      FROM (SELECT DISTINCT unnest(p_dead_letters) AS id) d
      LEFT JOIN wh_dead_letters l ON l.dead_letter_id = d.id
      LEFT JOIN kept k ON k.dead_letter_id = d.id
      LEFT JOIN (SELECT DISTINCT (h ->> 'held_by')::uuid AS id FROM jsonb_array_elements(v_held) AS h) w ON w.id = d.id;
    v_purged := ARRAY(SELECT o.key::uuid FROM jsonb_each_text(coalesce(v_outcomes, '{}')) AS o
                       WHERE o.value = 'purged' ORDER BY o.key::uuid);

    PERFORM let_streams_go(
        (SELECT jsonb_agg(h) FROM jsonb_array_elements(v_held) AS h WHERE (h ->> 'held_by')::uuid = ANY (v_purged)),
        p_now);
    DELETE FROM dead_letter_subjects s WHERE s.dead_letter_id = ANY (v_purged);
    DELETE FROM kept_forms k WHERE k.dead_letter_id = ANY (v_purged);
    DELETE FROM notes n WHERE n.dead_letter_id = ANY (v_purged);
    DELETE FROM dead_letter_payloads p WHERE p.dead_letter_id = ANY (v_purged);
    DELETE FROM dead_letter_deaths e WHERE e.dead_letter_id = ANY (v_purged);
    DELETE FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (v_purged);
    RETURN QUERY SELECT o.key::uuid, o.value FROM jsonb_each_text(coalesce(v_outcomes, '{}')) AS o;
END $$;
