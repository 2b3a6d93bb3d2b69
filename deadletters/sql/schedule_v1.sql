-- Writes what was decided about letters without a person: by their policy, or because their group is held.
--
-- p_decisions: array of objects {dead_letter_id, row_version, decision, next_recovery_at, group_id}. Decisions: 'due'
-- and 'wait' set the time of the next look; 'never' takes the letter out of the schedule; 'hold' and 'give_up' end its
-- automatic recovery; 'group_hold' and 'group_release' pass on the hold of the group. A letter that was changed since
-- that version is left alone. A stream that waits behind a letter which is given up runs on.
-- Returns the letters that were changed. Locks: letters in id order, then streams.
CREATE FUNCTION write_recovery_decisions(p_decisions jsonb, p_now timestamptz DEFAULT clock_timestamp())
RETURNS TABLE (dead_letter_id uuid, decision text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[] := ARRAY(SELECT d.dead_letter_id FROM jsonb_to_recordset(p_decisions) AS d(dead_letter_id uuid));
    v_done jsonb;
    v_streams jsonb;
BEGIN
    PERFORM 1 FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (v_ids) ORDER BY l.dead_letter_id FOR UPDATE;
    WITH decided AS (
        SELECT * FROM jsonb_to_recordset(p_decisions) AS d(
               dead_letter_id uuid, row_version integer, decision text, next_recovery_at timestamptz, group_id uuid)
    ), written AS (
        UPDATE wh_dead_letters l
           SET next_recovery_at = CASE WHEN l.recovery_status = 0 OR d.decision = 'group_release'
                                       THEN d.next_recovery_at ELSE l.next_recovery_at END,
               recovery_status = CASE d.decision
                   WHEN 'hold' THEN 2
                   WHEN 'give_up' THEN 4
                   WHEN 'group_hold' THEN CASE l.recovery_status WHEN 1 THEN 1 ELSE 2 END
                   WHEN 'group_release' THEN CASE l.recovery_status WHEN 2 THEN 0 ELSE l.recovery_status END
                   ELSE l.recovery_status END,
               operator_disposition = CASE d.decision
                   WHEN 'group_hold' THEN 2
                   WHEN 'group_release' THEN CASE l.operator_disposition WHEN 2 THEN 0 ELSE l.operator_disposition END
                   ELSE l.operator_disposition END,
               held_by_group = CASE d.decision WHEN 'group_hold' THEN d.group_id WHEN 'group_release' THEN NULL
                                               ELSE l.held_by_group END,
               row_version = l.row_version + CASE WHEN d.decision IN ('due', 'wait', 'never') THEN 0 ELSE 1 END
          FROM decided d
         WHERE l.dead_letter_id = ANY (v_ids) AND l.dead_letter_id = d.dead_letter_id
           AND l.row_version = d.row_version AND l.superseded_by IS NULL
           AND CASE d.decision
                   WHEN 'group_hold' THEN l.operator_disposition = 0 AND l.recovery_status IN (0, 1, 2)
                   WHEN 'group_release' THEN l.held_by_group IS NOT NULL
                   WHEN 'give_up' THEN l.recovery_status = 0 OR l.recovery_status = 2 AND l.operator_disposition = 3
                   ELSE l.recovery_status = 0 END
        RETURNING l.dead_letter_id, d.decision, l.source_table, l.perspective_name, l.stream_id
    )
    SELECT jsonb_agg(jsonb_build_object('dead_letter_id', w.dead_letter_id, 'decision', w.decision)),
           jsonb_agg(jsonb_build_object('queue', concat_ws(':', w.source_table, w.perspective_name),
                                        'stream_id', w.stream_id, 'held_by', w.dead_letter_id))
               FILTER (WHERE w.decision = 'give_up' AND w.stream_id IS NOT NULL)
      INTO v_done, v_streams FROM written w;
    IF v_streams IS NOT NULL THEN
        PERFORM let_streams_go(v_streams, p_now);
    END IF;
    RETURN QUERY SELECT d.dead_letter_id, d.decision
      FROM jsonb_to_recordset(coalesce(v_done, '[]')) AS d(dead_letter_id uuid, decision text);
END $$;
