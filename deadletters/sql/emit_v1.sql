-- Puts the rows that letters hold back into {{work}}, ready to run in their next life, at their old places.
--
-- p_letters: letters that the caller has locked; p_items: the item of each in a recovery run, or NULL.
-- p_message_ids: the id that each row gets; p_original_ids: the one that it had before its payload was edited, or NULL.
-- p_generation: the only build that may run them, NULL = any. Returns the letters whose row was written: of another
-- one a row with one of its keys waits already, and nothing is changed. A letter without a source row (of an adopted
-- database) gets the columns' defaults and a new place at the end.
CREATE FUNCTION emit_{{work}}(
    p_letters uuid[], p_items uuid[], p_message_ids uuid[], p_original_ids uuid[], p_generation text, p_now timestamptz
) RETURNS SETOF uuid LANGUAGE sql AS $$
    INSERT INTO {{work}} AS w (
           {{kept}}, {{id}}, {{body}}, envelope_raw, envelope_bytes, stream_id, position, life,
           scheduled_for, dead_letter_id, recovery_item_id, only_generation, failure_reason)
    SELECT {{kept_values}}, s.message_id, {{body_values}}, {{restore_raw}}, l.envelope_bytes,
           nullif(r.stream_id, '00000000-0000-0000-0000-000000000000'),
           coalesce(r.position, nextval(pg_get_serial_sequence('{{work}}', 'position'))), l.life + 1,
           p_now, l.dead_letter_id, s.item_id, p_generation, 99
      FROM unnest(p_letters, p_items, p_message_ids, p_original_ids)
           AS s(dead_letter_id, item_id, message_id, original_id)
     CROSS JOIN LATERAL (
           SELECT * FROM wh_dead_letters d WHERE d.dead_letter_id = s.dead_letter_id LIMIT 1) l
     CROSS JOIN LATERAL jsonb_populate_record(
           NULL::{{work}}, jsonb_build_object({{defaults}}, 'stream_id', l.stream_id) || coalesce(l.source_row, '{}')) r
     ORDER BY r.position
        ON CONFLICT DO NOTHING
    RETURNING w.dead_letter_id
$$;
