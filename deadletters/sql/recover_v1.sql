-- Re-emits one dead letter to the table it came from, at its old place in the stream, with attempts and delays 0.
--
-- Says what happened: 'sent'; 'recovering' or 'recovered' (somebody was first); 'given_up' (a person closed it);
-- 'conflict' (a message with its id waits already, nothing was changed); 'superseded'; 'unsupported' (its source
-- is not one of ours); NULL when there is no such letter. Deduplication does not apply: the id is known to us.
-- Locks: the letter, then the new work row.
CREATE FUNCTION recover_dead_letter(
    p_dead_letter_id uuid, p_actor text, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_letter wh_dead_letters;
    v_row wh_inbox;
BEGIN
    SELECT * INTO v_letter FROM wh_dead_letters WHERE dead_letter_id = p_dead_letter_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF v_letter.superseded_by IS NOT NULL THEN
        RETURN 'superseded';
    ELSIF v_letter.source_table <> 'wh_inbox' THEN
        RETURN 'unsupported';
    ELSIF v_letter.recovery_status NOT IN (0, 2) THEN
        RETURN (ARRAY['recovering', NULL, 'recovered', 'given_up'])[v_letter.recovery_status];
    END IF;

    v_row := dead_letter_inbox_row(v_letter, p_now);
    INSERT INTO wh_inbox SELECT (v_row).* ON CONFLICT (message_id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'conflict';
    END IF;

    UPDATE wh_dead_letters
       SET recovery_status = 1, recoveries_total = recoveries_total + 1, last_recovery_at = p_now,
           next_recovery_at = NULL, row_version = row_version + 1,
           operator_disposition = CASE operator_disposition WHEN 1 THEN 0 ELSE operator_disposition END
     WHERE dead_letter_id = p_dead_letter_id;
    UPDATE dead_letter_deaths SET recovery_sent_at = p_now, recovery_actor = p_actor
     WHERE dead_letter_id = p_dead_letter_id AND number = v_letter.deaths;
    RETURN 'sent';
END $$;

-- The inbox row that a letter holds, ready to run again in its next life. A letter without a source row (of an
-- adopted database) gets the columns' defaults and a new place at the end.
CREATE FUNCTION dead_letter_inbox_row(p_letter wh_dead_letters, p_now timestamptz) RETURNS wh_inbox
LANGUAGE plpgsql AS $$
DECLARE
    v_row wh_inbox;
BEGIN
    v_row := jsonb_populate_record(NULL::wh_inbox, jsonb_build_object(
        'stream_id', p_letter.stream_id, 'is_event', false, 'status', 1, 'handler_name', '', 'received_at', p_now
    ) || coalesce(p_letter.source_row, '{}'));
    v_row.message_id := p_letter.source_id;
    v_row.message_type := p_letter.message_type;
    v_row.event_data := coalesce(p_letter.envelope -> 'event_data', 'null'::jsonb);
    v_row.metadata := p_letter.metadata;
    v_row.envelope_raw := p_letter.envelope_raw;
    v_row.envelope_bytes := p_letter.envelope_bytes;
    v_row.position := coalesce(v_row.position, nextval(pg_get_serial_sequence('wh_inbox', 'position')));
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
    RETURN v_row;
END $$;

-- Writes the verdict of messages that were handled: their letters are recovered. Locks letters in id order.
-- Returns how many letters were settled; a letter that is gone or superseded is passed over.
CREATE FUNCTION settle_recovered(p_dead_letters uuid[], p_now timestamptz DEFAULT clock_timestamp()) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_settled integer;
BEGIN
    PERFORM 1 FROM wh_dead_letters WHERE dead_letter_id = ANY (p_dead_letters) ORDER BY dead_letter_id FOR UPDATE;
    UPDATE wh_dead_letters
       SET recovery_status = 3, recovered_at = p_now, next_recovery_at = NULL, row_version = row_version + 1
     WHERE dead_letter_id = ANY (p_dead_letters) AND superseded_by IS NULL;
    GET DIAGNOSTICS v_settled = ROW_COUNT;
    UPDATE dead_letter_deaths e SET verdict = 'recovered', verdict_at = p_now
      FROM wh_dead_letters l
     WHERE l.dead_letter_id = ANY (p_dead_letters) AND e.dead_letter_id = l.dead_letter_id AND e.number = l.deaths
       AND e.recovery_sent_at IS NOT NULL AND e.verdict IS NULL;
    RETURN v_settled;
END $$;
