-- Puts an edited payload into a letter, and keeps the one it replaces: version 1 is the original, kept at the first edit.
--
-- p_event_data, p_raw, p_bytes: the new payload as it is stored, its exact bytes where JSON cannot hold them, and how
-- many it has. With p_version they are those of that version, exactly. p_row_version: what the editor has seen.
-- A content that an earlier version had goes under that version's message id, any other under a new one; the letter
-- takes the id when it is sent.
-- outcome: '' when it was done, with the version that the letter holds now; else why nothing was changed: 'gone',
-- 'changed' (not that row version), 'recovering', 'recovered', 'given up', 'superseded', 'an event' (of a perspective:
-- what happened is not edited), 'no such version', 'full' (it has p_limit versions). Locks the letter.
CREATE FUNCTION edit_dead_letter(
    p_dead_letter_id uuid, p_row_version integer, p_event_data jsonb, p_raw bytea, p_bytes integer, p_version integer,
    p_editor text, p_reason text, p_limit integer, p_now timestamptz DEFAULT clock_timestamp(),
    OUT outcome text, OUT version integer
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_letter wh_dead_letters;
    v_new dead_letter_payloads;
BEGIN
    SELECT * INTO v_letter FROM wh_dead_letters l WHERE l.dead_letter_id = p_dead_letter_id FOR UPDATE;
    outcome := CASE
        WHEN NOT FOUND THEN 'gone'
        WHEN v_letter.superseded_by IS NOT NULL THEN 'superseded'
        WHEN v_letter.recovery_status = 1 THEN 'recovering'
        WHEN v_letter.recovery_status = 3 THEN 'recovered'
        WHEN v_letter.recovery_status = 4 THEN 'given up'
        WHEN v_letter.source_table = 'wh_perspective_events' THEN 'an event'
        WHEN v_letter.row_version <> p_row_version THEN 'changed'
        WHEN coalesce(v_letter.edited_version, 1) >= p_limit THEN 'full'
        ELSE '' END;
    IF outcome <> '' THEN
        RETURN;
    END IF;

    IF v_letter.edited_version IS NULL THEN
        INSERT INTO dead_letter_payloads (
               dead_letter_id, version, envelope, envelope_raw, envelope_bytes, message_id, at)
        VALUES (p_dead_letter_id, 1, v_letter.envelope, v_letter.envelope_raw, v_letter.envelope_bytes,
                v_letter.source_id, v_letter.dead_lettered_at);
    END IF;
    IF p_version IS NULL THEN
        v_new.envelope := jsonb_set(
            CASE jsonb_typeof(v_letter.envelope) WHEN 'object' THEN v_letter.envelope ELSE '{}' END,
            '{event_data}', p_event_data);
        v_new.envelope_raw := p_raw;
        v_new.envelope_bytes := p_bytes;
    ELSE
        SELECT * INTO v_new FROM dead_letter_payloads p
         WHERE p.dead_letter_id = p_dead_letter_id AND p.version = p_version;
        IF NOT FOUND THEN
            outcome := 'no such version';
            RETURN;
        END IF;
    END IF;
    -- Text, since as jsonb 1.0 and 1 are the same.
    v_new.message_id := coalesce(
        (SELECT p.message_id FROM dead_letter_payloads p
          WHERE p.dead_letter_id = p_dead_letter_id AND p.envelope::text = v_new.envelope::text
            AND p.envelope_raw IS NOT DISTINCT FROM v_new.envelope_raw
          ORDER BY p.version LIMIT 1),
        gen_random_uuid());
    version := coalesce(v_letter.edited_version, 1) + 1;
    INSERT INTO dead_letter_payloads (
           dead_letter_id, version, envelope, envelope_raw, envelope_bytes, message_id, edited_by, reason, at)
    VALUES (p_dead_letter_id, version, v_new.envelope, v_new.envelope_raw, v_new.envelope_bytes, v_new.message_id,
            p_editor, p_reason, p_now);
    UPDATE wh_dead_letters l
       SET envelope = v_new.envelope, envelope_raw = v_new.envelope_raw, envelope_bytes = v_new.envelope_bytes,
           edited_version = version, row_version = l.row_version + 1
     WHERE l.dead_letter_id = p_dead_letter_id;
END $$;
