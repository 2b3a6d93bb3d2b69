-- Lets the stream run again that waits behind a letter; false = none does. Locks the stream.
CREATE FUNCTION let_stream_of_letter_go(p_letter wh_dead_letters) RETURNS boolean LANGUAGE sql AS $$
    SELECT let_streams_go(jsonb_build_array(jsonb_build_object(
        'queue', concat_ws(':', p_letter.source_table, p_letter.perspective_name),
        'stream_id', p_letter.stream_id, 'held_by', p_letter.dead_letter_id))) > 0
$$;

-- A person's disposition of one letter, and the recovery status that follows: hold (2) holds it, give up (3) closes
-- it, none (0) and retry now (1) open it again, the latter due at once. A letter in flight keeps its status: the
-- disposition takes effect when its message dies again.
--
-- Returns '' when it was done; 'recovered', 'superseded' or 'given up' when such a letter is left alone: one that was
-- given up is only opened again. NULL without a letter. The same rules as a table: `words/policies`.
-- A stream that waits behind a letter which is given up runs on. Locks the letter, then the stream.
CREATE FUNCTION dispose_dead_letter(
    p_dead_letter_id uuid, p_disposition integer, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_letter wh_dead_letters;
BEGIN
    SELECT * INTO v_letter FROM wh_dead_letters WHERE dead_letter_id = p_dead_letter_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF v_letter.superseded_by IS NOT NULL THEN
        RETURN 'superseded';
    ELSIF v_letter.recovery_status = 3 THEN
        RETURN 'recovered';
    ELSIF v_letter.recovery_status = 4 AND p_disposition IN (1, 2) THEN
        RETURN 'given up';
    END IF;
    UPDATE wh_dead_letters
       SET operator_disposition = p_disposition, row_version = row_version + 1, held_by_group = NULL,
           decided_at = p_now,
           recovery_status = CASE WHEN recovery_status = 1 THEN 1 ELSE (ARRAY[0, 0, 2, 4])[p_disposition + 1] END,
           next_recovery_at = CASE WHEN recovery_status = 1 THEN next_recovery_at
                                   WHEN p_disposition = 1 THEN p_now
                                   WHEN p_disposition = 0 AND recovery_status = 0 THEN next_recovery_at END
     WHERE dead_letter_id = p_dead_letter_id;
    IF p_disposition = 3 AND v_letter.recovery_status <> 1 THEN
        PERFORM let_stream_of_letter_go(v_letter);
    END IF;
    RETURN '';
END $$;
