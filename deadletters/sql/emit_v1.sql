-- Puts the row that a letter holds back into {{work}}, ready to run in its next life, at its old place.
--
-- Returns false, and changes nothing, when a row with one of its keys waits already. A letter without a source row
-- (of an adopted database) gets the columns' defaults and a new place at the end.
CREATE FUNCTION emit_{{work}}(p_letter wh_dead_letters, p_now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_row {{work}};
BEGIN
    v_row := jsonb_populate_record(
        NULL::{{work}}, jsonb_build_object({{defaults}}, 'stream_id', p_letter.stream_id)
                        || coalesce(p_letter.source_row, '{}'));
    v_row.{{id}} := p_letter.source_id;
    v_row.stream_id := nullif(v_row.stream_id, '00000000-0000-0000-0000-000000000000');
    {{restore}}
    v_row.envelope_raw := {{restore_raw}};
    v_row.envelope_bytes := p_letter.envelope_bytes;
    v_row.position := coalesce(v_row.position, nextval(pg_get_serial_sequence('{{work}}', 'position')));
    v_row.attempts := 0;
    v_row.delays := 0;
    v_row.releases := 0;
    v_row.suspect := false;
    v_row.life := p_letter.life + 1;
    v_row.error := NULL;
    v_row.failure_detail := NULL;
    v_row.failure_reason := 99;
    v_row.scheduled_for := p_now;
    v_row.processed_at := NULL;
    v_row.lease_token := NULL;
    v_row.lease_expiry := NULL;
    v_row.instance_id := NULL;
    v_row.started_at := NULL;
    v_row.dead_letter_id := p_letter.dead_letter_id;
    INSERT INTO {{work}} SELECT (v_row).* ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
