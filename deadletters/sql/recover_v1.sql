-- Recovery of one letter, the verdict of handled messages, and what is due.

-- Re-emits one dead letter to the table it came from, at its old place in the stream, with attempts and delays 0.
--
-- p_scheduled: the schedule does it, so it counts against the letter's automatic recoveries; a person's does not.
-- Says what happened: 'sent'; 'recovering' or 'recovered' (somebody was first); 'given_up' (a person closed it);
-- 'conflict' (a message with its id waits already, nothing was changed); 'superseded'; 'unsupported' (its source
-- is not one of ours); NULL when there is no such letter. Deduplication does not apply: the id is known to us.
-- Locks: the letter, then the new work row.
CREATE FUNCTION recover_dead_letter(
    p_dead_letter_id uuid, p_actor text, p_scheduled boolean DEFAULT false,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_letter wh_dead_letters;
    v_emitted boolean;
BEGIN
    SELECT * INTO v_letter FROM wh_dead_letters WHERE dead_letter_id = p_dead_letter_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF v_letter.superseded_by IS NOT NULL THEN
        RETURN 'superseded';
    ELSIF v_letter.recovery_status NOT IN (0, 2) THEN
        RETURN (ARRAY['recovering', NULL, 'recovered', 'given_up'])[v_letter.recovery_status];
    END IF;

    CASE v_letter.source_table
    WHEN 'wh_inbox', 'broker' THEN v_emitted := emit_wh_inbox(v_letter, p_now);
    WHEN 'wh_outbox' THEN v_emitted := emit_wh_outbox(v_letter, p_now);
    WHEN 'wh_perspective_events' THEN v_emitted := emit_wh_perspective_events(v_letter, p_now);
    ELSE RETURN 'unsupported';
    END CASE;
    IF NOT v_emitted THEN
        RETURN 'conflict';
    END IF;
    IF v_letter.source_table = 'broker' THEN  -- it has never been in the inbox: it comes, and does not come back
        INSERT INTO flow_deltas (source, sent, returned) VALUES ('wh_inbox', 1, -1);
    END IF;

    UPDATE wh_dead_letters
       SET recovery_status = 1, recoveries_total = recoveries_total + 1, last_recovery_at = p_now,
           recovery_attempts = recovery_attempts + p_scheduled::integer,
           next_recovery_at = NULL, row_version = row_version + 1,
           operator_disposition = CASE operator_disposition WHEN 1 THEN 0 ELSE operator_disposition END
     WHERE dead_letter_id = p_dead_letter_id;
    UPDATE dead_letter_deaths SET recovery_sent_at = p_now, recovery_actor = p_actor
     WHERE dead_letter_id = p_dead_letter_id AND number = v_letter.deaths;
    RETURN 'sent';
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

-- Letters that the schedule may recover now, the longest due first; reads only, a recovery checks again.
-- Held, closed, quiet and unscheduled letters are not due.
CREATE FUNCTION due_dead_letters(p_limit integer, p_now timestamptz DEFAULT clock_timestamp()) RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
    SELECT l.dead_letter_id
      FROM wh_dead_letters l
     WHERE l.recovery_status = 0 AND l.superseded_by IS NULL AND l.next_recovery_at <= p_now
       AND (l.operator_disposition = 1 OR l.operator_disposition = 0 AND coalesce(l.quiet_until <= p_now, true))
     ORDER BY l.next_recovery_at, l.dead_letter_id
     LIMIT p_limit
$$;
