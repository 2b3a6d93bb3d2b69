-- Recovery of letters, the verdict of handled messages, and what is due.

-- Puts rows that letters hold back into a work table; see emit_wh_inbox.
CREATE FUNCTION emit_rows(
    p_work text, p_letters uuid[], p_items uuid[], p_message_ids uuid[], p_original_ids uuid[], p_generation text,
    p_now timestamptz
) RETURNS uuid[] LANGUAGE sql AS $$
    SELECT CASE p_work
           WHEN 'wh_inbox' THEN ARRAY(SELECT emit_wh_inbox(
               p_letters, p_items, p_message_ids, p_original_ids, p_generation, p_now))
           WHEN 'wh_outbox' THEN ARRAY(SELECT emit_wh_outbox(
               p_letters, p_items, p_message_ids, p_original_ids, p_generation, p_now))
           WHEN 'wh_perspective_events' THEN ARRAY(SELECT emit_wh_perspective_events(
               p_letters, p_items, p_message_ids, p_original_ids, p_generation, p_now)) END
$$;

-- Re-emits dead letters to the tables they came from, at their old places in their streams, with attempts and delays 0.
--
-- p_requests: array of objects {dead_letter_id, item_id, life, row_version, include_held}: the item of the letter in a
-- recovery run, or null; life and row_version as they were seen, null = whatever they are; include_held (default
-- false): also what a person holds.
-- p_kind: 'person'; 'schedule', which counts against the letters' automatic recoveries, but for those that a person asked
-- for ("retry now"), and takes open ones only;
-- 'replay', on the build p_generation only, which each letter remembers. What a person decided wins over the latter two.
-- Returns the work table of each letter that could be sent, and what became of it: 'sent'; 'recovering' or 'recovered' (somebody was first); 'given_up'; 'changed' since it
-- was seen; 'held' by a person; 'quiet' until later; 'stream_held' (its stream waits behind another letter, and a run
-- does not overtake it); 'conflict' (a message with its id waits already, nothing was changed); 'superseded';
-- 'unsupported' (its source is not one of ours); 'broken' (its row cannot be restored as it is stored); 'gone'. Deduplication does not apply: the ids are known to us.
-- An edited payload goes under the id of its version, and the letter takes that id; what it was, `original_id` tells.
-- Locks: the letters in order of id, then the new work rows, then deaths.
CREATE FUNCTION recover_dead_letters(
    p_requests jsonb, p_actor text, p_kind text DEFAULT 'person', p_generation text DEFAULT NULL,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (dead_letter_id uuid, item_id uuid, source text, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[] := ARRAY(SELECT r.dead_letter_id FROM jsonb_to_recordset(p_requests) AS r(dead_letter_id uuid));
    v_letters uuid[];
    v_items uuid[];
    v_message_ids uuid[];
    v_original_ids uuid[];
    v_outcomes text[];
    v_sent uuid[] := '{}';
    v_work text;
    v_some_letters uuid[];
    v_some_items uuid[];
    v_some_ids uuid[];
    v_some_originals uuid[];
    v_broken uuid[] := '{}';
    v_from_broker integer;
BEGIN
    PERFORM 1 FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (v_ids) ORDER BY l.dead_letter_id FOR UPDATE;

    SELECT array_agg(r.dead_letter_id), array_agg(r.item_id), array_agg(coalesce(v.message_id, l.source_id)),
           array_agg(CASE WHEN v.message_id IS NULL THEN l.original_id ELSE v.original_id END), array_agg(CASE
           WHEN l.dead_letter_id IS NULL THEN 'gone'
           WHEN l.superseded_by IS NOT NULL THEN 'superseded'
           WHEN l.recovery_status NOT IN (0, 2)
               THEN (ARRAY['recovering', NULL, 'recovered', 'given_up'])[l.recovery_status]
           WHEN r.life <> l.life OR r.row_version <> l.row_version THEN 'changed'
           WHEN l.operator_disposition IN (2, 3) AND (p_kind <> 'person' OR r.include_held IS NOT TRUE) THEN 'held'
           WHEN l.recovery_status = 2 AND p_kind = 'schedule' THEN 'held'
           WHEN l.quiet_until > p_now AND p_kind <> 'person' AND l.operator_disposition <> 1 THEN 'quiet'
           WHEN l.source_table NOT IN ('wh_inbox', 'broker', 'wh_outbox', 'wh_perspective_events') THEN 'unsupported'
           WHEN r.item_id IS NOT NULL AND EXISTS (
                SELECT FROM wh_streams s
                 WHERE s.queue = concat_ws(':', l.source_table, l.perspective_name) AND s.stream_id = l.stream_id
                   AND s.held_by <> l.dead_letter_id) THEN 'stream_held'
           WHEN v.message_id <> l.source_id AND EXISTS (
                SELECT FROM wh_dead_letters o
                 WHERE o.source_id = v.message_id AND o.source_table = l.source_table AND o.superseded_by IS NULL)
               THEN 'conflict'
           ELSE l.source_table END)
      INTO v_letters, v_items, v_message_ids, v_original_ids, v_outcomes
      FROM jsonb_to_recordset(p_requests) AS r(
           dead_letter_id uuid, item_id uuid, life integer, row_version integer, include_held boolean)
      LEFT JOIN LATERAL (
           SELECT * FROM wh_dead_letters d WHERE d.dead_letter_id = r.dead_letter_id LIMIT 1) l ON true
      LEFT JOIN LATERAL (
           SELECT p.message_id, nullif(f.message_id, p.message_id) AS original_id
             FROM dead_letter_payloads p
             JOIN dead_letter_payloads f ON f.dead_letter_id = p.dead_letter_id AND f.version = 1
            WHERE p.dead_letter_id = l.dead_letter_id AND p.version = l.edited_version LIMIT 1) v
           ON l.edited_version IS NOT NULL;

    FOREACH v_work IN ARRAY ARRAY['wh_inbox', 'wh_outbox', 'wh_perspective_events'] LOOP
        SELECT array_agg(u.letter), array_agg(u.item), array_agg(u.message_id), array_agg(u.original_id)
          INTO v_some_letters, v_some_items, v_some_ids, v_some_originals
          FROM unnest(v_letters, v_items, v_message_ids, v_original_ids, v_outcomes)
               AS u(letter, item, message_id, original_id, source)
         WHERE u.source = v_work OR u.source = 'broker' AND v_work = 'wh_inbox';
        CONTINUE WHEN v_some_letters IS NULL;
        BEGIN
            v_sent := v_sent || emit_rows(
                v_work, v_some_letters, v_some_items, v_some_ids, v_some_originals, p_generation, p_now);
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR syntax_error_or_access_rule_violation THEN
            -- A row of theirs cannot be restored: the others are, one by one.
            FOR v_one IN 1 .. cardinality(v_some_letters) LOOP
                BEGIN
                    v_sent := v_sent || emit_rows(
                        v_work, v_some_letters[v_one : v_one], v_some_items[v_one : v_one], v_some_ids[v_one : v_one],
                        v_some_originals[v_one : v_one], p_generation, p_now);
                EXCEPTION
                    WHEN data_exception OR integrity_constraint_violation OR syntax_error_or_access_rule_violation THEN
                    v_broken := v_broken || v_some_letters[v_one];
                END;
            END LOOP;
        END;
    END LOOP;

    -- What comes from a broker has never been in the inbox: it comes, and does not come back.
    SELECT count(*) INTO v_from_broker FROM unnest(v_letters, v_outcomes) AS u(letter, source)
     WHERE u.source = 'broker' AND u.letter = ANY (v_sent);
    IF v_from_broker > 0 THEN
        INSERT INTO flow_deltas (source, sent, returned) VALUES ('wh_inbox', v_from_broker, -v_from_broker);
    END IF;

    UPDATE wh_dead_letters l
       SET recovery_status = 1, recoveries_total = l.recoveries_total + 1, last_recovery_at = p_now,
           recovery_attempts = l.recovery_attempts + (p_kind = 'schedule' AND l.operator_disposition <> 1)::integer,
           next_recovery_at = NULL, row_version = l.row_version + 1,
           current_item_id = s.item, source_id = s.message_id, original_id = s.original_id,
           retried_on_generations = CASE WHEN p_kind = 'replay' AND NOT l.retried_on_generations @> ARRAY[p_generation]
               THEN l.retried_on_generations || p_generation ELSE l.retried_on_generations END,
           operator_disposition = CASE l.operator_disposition WHEN 1 THEN 0 ELSE l.operator_disposition END
      FROM unnest(v_letters, v_items, v_message_ids, v_original_ids) AS s(letter, item, message_id, original_id)
     WHERE l.dead_letter_id = ANY (v_sent) AND l.dead_letter_id = s.letter;
    UPDATE dead_letter_deaths e
       SET recovery_sent_at = p_now, recovery_actor = p_actor, recovery_item_id = s.item, verdict = NULL,
           verdict_at = NULL
      FROM unnest(v_letters, v_items) AS s(letter, item)
     WHERE e.dead_letter_id = s.letter
       AND e.id = ANY (ARRAY(
           SELECT d.id FROM unnest(v_sent) AS sent(letter)
            CROSS JOIN LATERAL (
                  SELECT d.id FROM dead_letter_deaths d
                   WHERE d.dead_letter_id = sent.letter ORDER BY d.number DESC LIMIT 1) d));

    RETURN QUERY
    SELECT u.letter, u.item, CASE u.outcome WHEN 'broker' THEN 'wh_inbox' ELSE u.outcome END,
           CASE WHEN u.letter = ANY (v_sent) THEN 'sent'
                WHEN u.letter = ANY (v_broken) THEN 'broken'
                WHEN u.outcome IN ('wh_inbox', 'broker', 'wh_outbox', 'wh_perspective_events') THEN 'conflict'
                ELSE u.outcome END
      FROM unnest(v_letters, v_items, v_outcomes) AS u(letter, item, outcome);
END $$;

-- Re-emits one letter for a person; see recover_dead_letters. NULL when there is no such letter.
CREATE FUNCTION recover_dead_letter(
    p_dead_letter_id uuid, p_actor text, p_scheduled boolean DEFAULT false,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS text LANGUAGE sql AS $$
    SELECT nullif(r.outcome, 'gone')
      FROM recover_dead_letters(
           jsonb_build_array(jsonb_build_object('dead_letter_id', p_dead_letter_id, 'include_held', true)), p_actor,
           CASE WHEN p_scheduled THEN 'schedule' ELSE 'person' END, NULL, p_now) r
$$;

-- Writes the verdict of messages that were handled: their letters and the items of their runs are recovered.
--
-- p_skipped: those of them whose effect was there already, so that nothing was done: their items end as skipped.
-- Returns how many items got their answer. A letter that is gone or superseded is passed over, its item is not.
-- Locks: the letters in order of id, then deaths and items.
CREATE FUNCTION settle_recovered(
    p_dead_letters uuid[], p_skipped uuid[] DEFAULT '{}', p_now timestamptz DEFAULT clock_timestamp()
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_items uuid[];
BEGIN
    PERFORM 1 FROM wh_dead_letters WHERE dead_letter_id = ANY (p_dead_letters) ORDER BY dead_letter_id FOR UPDATE;
    v_items := ARRAY(SELECT l.current_item_id FROM wh_dead_letters l
                      WHERE l.dead_letter_id = ANY (p_dead_letters) AND l.current_item_id IS NOT NULL
                     UNION
                     SELECT i.item_id FROM unnest(p_dead_letters) AS l(id)
                      CROSS JOIN LATERAL (
                            SELECT i.item_id FROM recovery_items i
                             WHERE i.dead_letter_id = l.id AND i.state = 'sent' LIMIT 1) i);
    UPDATE wh_dead_letters
       SET recovery_status = 3, recovered_at = p_now, next_recovery_at = NULL, row_version = row_version + 1
     WHERE dead_letter_id = ANY (p_dead_letters) AND superseded_by IS NULL;
    UPDATE dead_letter_deaths e SET verdict = 'recovered', verdict_at = p_now
      FROM wh_dead_letters l
     WHERE l.dead_letter_id = ANY (p_dead_letters) AND e.dead_letter_id = l.dead_letter_id AND e.number = l.deaths
       AND e.recovery_sent_at IS NOT NULL AND (e.verdict IS NULL OR e.verdict = 'no_answer');
    IF cardinality(v_items) = 0 THEN
        RETURN 0;
    END IF;
    RETURN end_recovery_items(
        jsonb_agg(CASE WHEN i.dead_letter_id = ANY (p_skipped)
                       THEN jsonb_build_object('item_id', i.item_id, 'state', 'skipped',
                                               'why', 'its effect was there already, nothing was done')
                       ELSE jsonb_build_object('item_id', i.item_id, 'state', 'recovered') END), p_now)
      FROM unnest(v_items) AS v(item_id)
     CROSS JOIN LATERAL (SELECT i.* FROM recovery_items i WHERE i.item_id = v.item_id LIMIT 1) i;
END $$;

-- Letters that the schedule looks at now, the longest due first; reads only. Held, closed and unscheduled ones are not
-- among them. What a person decided and what is quiet is told by whoever looks, and gets a later time or none: rows
-- that this passed over would have to be passed over each time.
CREATE FUNCTION due_dead_letters(p_limit integer, p_now timestamptz DEFAULT clock_timestamp()) RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
    SELECT l.dead_letter_id
      FROM wh_dead_letters l
     WHERE l.recovery_status = 0 AND l.superseded_by IS NULL AND l.next_recovery_at <= p_now
     ORDER BY l.next_recovery_at, l.dead_letter_id
     LIMIT p_limit
$$;
