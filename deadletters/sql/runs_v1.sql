-- The items of recovery runs: what is sent, what it came to, what follows.
-- The LIMITs make the planner look each item up by its key: of a run that was just frozen it knows nothing.

-- The place in its stream of the message that a letter holds; NULL when nobody knows, whatever a foreign writer stored.
CREATE FUNCTION dead_letter_position(p_letter wh_dead_letters) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_letter.source_row ->> 'position' ~ '^-?[0-9]{1,18}$'
                THEN (p_letter.source_row ->> 'position')::bigint END
$$;

-- Makes the next waiting item of each of these items' streams the one that may be sent in its run.
CREATE FUNCTION promote_items(p_items uuid[]) RETURNS void LANGUAGE sql AS $$
    UPDATE recovery_items n SET is_next = true
     WHERE NOT n.is_next AND n.item_id = ANY (ARRAY(
           SELECT f.item_id
             FROM (SELECT DISTINCT i.run_id, i.stream_id FROM unnest(p_items) AS p(item_id)
                    CROSS JOIN LATERAL (
                          SELECT i.run_id, i.stream_id FROM recovery_items i WHERE i.item_id = p.item_id LIMIT 1) i
                    WHERE i.stream_id IS NOT NULL) e
            CROSS JOIN LATERAL (
                  SELECT w.item_id FROM recovery_items w
                   WHERE w.run_id = e.run_id AND w.stream_id = e.stream_id AND w.state = 'waiting'
                   ORDER BY w.place LIMIT 1) f))
$$;

-- Ends items: p_ends is an array of objects {item_id, state, why}. An item is ended once; one without an answer gets
-- the answer that comes after all, unless p_from_waiting: then those that wait are ended, and no other.
-- Returns how many were. Locks the items; the caller has their letters, so that no two wait for each other.
CREATE FUNCTION end_recovery_items(p_ends jsonb, p_now timestamptz, p_from_waiting boolean DEFAULT false)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_ids uuid[] := ARRAY(SELECT e.item_id FROM jsonb_to_recordset(p_ends) AS e(item_id uuid));
    v_ended uuid[];
    v_in_order uuid[];
BEGIN
    SELECT array_agg(i.item_id), array_agg(i.item_id) FILTER (WHERE i.state <> 'no_answer') INTO v_ended, v_in_order
      FROM (SELECT i.item_id, i.state FROM unnest(v_ids) AS v(item_id)
             CROSS JOIN LATERAL (
                   SELECT i.item_id, i.state FROM recovery_items i
                    WHERE i.item_id = v.item_id
                      AND CASE WHEN p_from_waiting THEN i.state = 'waiting' ELSE i.state IN ('sent', 'no_answer') END
                    LIMIT 1 FOR UPDATE) i) i;
    IF v_ended IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE recovery_items i
       SET state = e.state, why = coalesce(e.why, ''), ended_at = p_now, delayed_until = NULL
      FROM jsonb_to_recordset(p_ends) AS e(item_id uuid, state text, why text)
     WHERE i.item_id = ANY (v_ended) AND i.item_id = e.item_id;
    IF v_in_order IS NOT NULL THEN
        PERFORM promote_items(v_in_order);
    END IF;
    RETURN cardinality(v_ended);
END $$;

-- Sends waiting items of a run: letters as they were frozen go back, the others are skipped, and why is said.
--
-- p_kind, p_generation: as of recover_dead_letters. p_deadline: after which there is no answer. Returns the letters'
-- sources and how many of each were sent; those of a skipped one are under ''. Locks as recover_dead_letters, then items.
CREATE FUNCTION send_recovery_items(
    p_items uuid[], p_actor text, p_kind text, p_generation text, p_deadline interval, p_include_held boolean,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (source text, n bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_requests jsonb := (
        SELECT jsonb_agg(jsonb_build_object('dead_letter_id', i.dead_letter_id, 'item_id', i.item_id, 'life', i.life,
                                            'row_version', i.row_version, 'include_held', p_include_held))
          FROM unnest(p_items) AS p(item_id)
         CROSS JOIN LATERAL (
               SELECT i.* FROM recovery_items i WHERE i.item_id = p.item_id AND i.state = 'waiting' LIMIT 1) i);
    v_letters uuid[];
    v_items uuid[];
    v_sources text[];
    v_outcomes text[];
    v_sent uuid[];
BEGIN
    IF v_requests IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(r.dead_letter_id), array_agg(r.item_id), array_agg(r.source), array_agg(r.outcome),
           array_agg(r.item_id) FILTER (WHERE r.outcome = 'sent')
      INTO v_letters, v_items, v_sources, v_outcomes, v_sent
      FROM recover_dead_letters(v_requests, p_actor, p_kind, p_generation, p_now) r;
    UPDATE recovery_items SET state = 'sent', sent_at = p_now, deadline_at = p_now + p_deadline
     WHERE item_id = ANY (v_sent) AND state = 'waiting';
    PERFORM end_recovery_items(
        jsonb_agg(jsonb_build_object('item_id', o.item, 'state', 'skipped', 'why', recovery_skip_words(o.outcome, l.d))),
        p_now, true)
      FROM unnest(v_letters, v_items, v_outcomes) AS o(letter, item, outcome)
      LEFT JOIN LATERAL (
           SELECT d FROM wh_dead_letters d WHERE d.dead_letter_id = o.letter LIMIT 1) l ON true
     WHERE o.outcome <> 'sent'
    HAVING count(*) > 0;
    RETURN QUERY
    SELECT CASE WHEN o.outcome = 'sent' THEN o.source ELSE '' END, count(*)
      FROM unnest(v_sources, v_outcomes) AS o(source, outcome) GROUP BY 1;
END $$;

-- Says why a letter was not sent.
CREATE FUNCTION recovery_skip_words(p_outcome text, p_letter wh_dead_letters) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE p_outcome
           WHEN 'recovering' THEN 'is being recovered already' || by.words
           WHEN 'recovered' THEN 'was recovered already' || by.words
           WHEN 'given_up' THEN 'was given up'
           WHEN 'changed' THEN 'changed since frozen'
           WHEN 'held' THEN 'is held by a person'
           WHEN 'quiet' THEN 'is quiet for now'
           WHEN 'stream_held' THEN 'its stream waits behind another dead letter'
           WHEN 'conflict' THEN 'a message with its id waits already'
           WHEN 'superseded' THEN 'another letter took its place'
           WHEN 'unsupported' THEN 'its source is not one that can be sent to'
           WHEN 'broken' THEN 'its row cannot be restored as it is stored'
           WHEN 'gone' THEN 'the letter is gone'
           ELSE p_outcome END
      FROM (SELECT coalesce((
            SELECT coalesce(' by ' || e.recovery_actor, '')
                   || coalesce(' at ' || to_char(e.recovery_sent_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), '')
              FROM dead_letter_deaths e
             WHERE e.dead_letter_id = (p_letter).dead_letter_id AND e.recovery_sent_at IS NOT NULL
             ORDER BY e.number DESC LIMIT 1), '') AS words) by
$$;

-- Notes that handlers put messages off: p_delays is an array of objects {dead_letter_id, due_in_ms}. Their items say
-- until when, and their answers are due that much later. Returns how many items were put off.
CREATE FUNCTION settle_delayed(p_delays jsonb, p_now timestamptz DEFAULT clock_timestamp()) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_delayed integer;
BEGIN
    UPDATE recovery_items i
       SET delayed_until = p_now + d.due_in_ms * interval '1 ms',
           deadline_at = p_now + d.due_in_ms * interval '1 ms'
                         + CASE WHEN r.plan ->> 'deadline_seconds' ~ '^[0-9]{1,9}$'
                                THEN (r.plan ->> 'deadline_seconds')::integer ELSE 3600 END * interval '1 s'
      FROM jsonb_to_recordset(p_delays) AS d(dead_letter_id uuid, due_in_ms bigint), recovery_runs r
     WHERE i.dead_letter_id = d.dead_letter_id AND i.state = 'sent' AND r.run_id = i.run_id;
    GET DIAGNOSTICS v_delayed = ROW_COUNT;
    RETURN v_delayed;
END $$;

-- Ends up to p_limit items whose time for an answer is over. Their letters stay as they are, and the answer is still
-- taken when it comes; a row that waits for one build may run on any from now on. What follows in their streams is
-- skipped: it would only wait behind them. Returns how many there were.
-- Locks: the letters in order of id, then rows, then deaths and items; what others hold is left for the next time.
CREATE FUNCTION end_overdue_items(p_limit integer, p_now timestamptz DEFAULT clock_timestamp()) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_letters uuid[] := ARRAY(
        SELECT i.dead_letter_id FROM recovery_items i
         WHERE i.state = 'sent' AND i.deadline_at <= p_now ORDER BY i.deadline_at LIMIT p_limit);
    v_items uuid[];
BEGIN
    IF cardinality(v_letters) = 0 THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (v_letters)
      ORDER BY l.dead_letter_id FOR UPDATE SKIP LOCKED;
    v_items := ARRAY(
        SELECT i.item_id FROM recovery_items i
         WHERE i.dead_letter_id = ANY (v_letters) AND i.state = 'sent' AND i.deadline_at <= p_now
         ORDER BY i.dead_letter_id FOR UPDATE SKIP LOCKED);
    UPDATE wh_inbox w SET only_generation = NULL
     WHERE w.dead_letter_id = ANY (v_letters) AND w.processed_at IS NULL AND w.only_generation IS NOT NULL
       AND w.recovery_item_id = ANY (v_items);
    UPDATE wh_outbox w SET only_generation = NULL
     WHERE w.dead_letter_id = ANY (v_letters) AND w.processed_at IS NULL AND w.only_generation IS NOT NULL
       AND w.recovery_item_id = ANY (v_items);
    UPDATE wh_perspective_events w SET only_generation = NULL
     WHERE w.dead_letter_id = ANY (v_letters) AND w.processed_at IS NULL AND w.only_generation IS NOT NULL
       AND w.recovery_item_id = ANY (v_items);
    UPDATE dead_letter_deaths e SET verdict = 'no_answer', verdict_at = p_now
      FROM wh_dead_letters l
     WHERE l.dead_letter_id = ANY (v_letters) AND l.current_item_id = ANY (v_items)
       AND e.dead_letter_id = l.dead_letter_id AND e.number = l.deaths
       AND e.recovery_sent_at IS NOT NULL AND e.verdict IS NULL;
    UPDATE recovery_items i
       SET state = 'skipped', ended_at = p_now, why = 'an earlier message of its stream gave no answer'
     WHERE i.state = 'waiting' AND i.stream_id IS NOT NULL AND (i.run_id, i.stream_id) IN (
           SELECT o.run_id, o.stream_id FROM unnest(v_items) AS v(item_id)
            CROSS JOIN LATERAL (SELECT o.* FROM recovery_items o WHERE o.item_id = v.item_id LIMIT 1) o);
    RETURN end_recovery_items(
        coalesce((SELECT jsonb_agg(jsonb_build_object('item_id', v, 'state', 'no_answer', 'why', ''))
                    FROM unnest(v_items) AS v), '[]'), p_now);
END $$;

-- Holds up to p_limit letters whose message is nowhere: recovering for longer than p_grace, and no row of theirs waits.
-- They got no answer. Returns how many. Locks: the letters in order of id, then deaths; skips what others hold.
CREATE FUNCTION hold_lost_letters(p_limit integer, p_grace interval, p_now timestamptz DEFAULT clock_timestamp())
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_letters uuid[] := ARRAY(
        SELECT l.dead_letter_id FROM wh_dead_letters l
         WHERE l.recovery_status = 1 AND l.superseded_by IS NULL AND l.last_recovery_at < p_now - p_grace
           AND NOT EXISTS (SELECT FROM wh_inbox w WHERE w.dead_letter_id = l.dead_letter_id AND w.processed_at IS NULL)
           AND NOT EXISTS (SELECT FROM wh_outbox w WHERE w.dead_letter_id = l.dead_letter_id AND w.processed_at IS NULL)
           AND NOT EXISTS (SELECT FROM wh_perspective_events w
                            WHERE w.dead_letter_id = l.dead_letter_id AND w.processed_at IS NULL)
         LIMIT p_limit);
    v_lost uuid[];
BEGIN
    IF cardinality(v_letters) = 0 THEN
        RETURN 0;
    END IF;
    -- By a second snapshot: one that was answered or sent meanwhile is not lost.
    v_lost := ARRAY(
        SELECT l.dead_letter_id FROM wh_dead_letters l
         WHERE l.dead_letter_id = ANY (v_letters) AND l.recovery_status = 1 AND l.superseded_by IS NULL
           AND l.last_recovery_at < p_now - p_grace
         ORDER BY l.dead_letter_id FOR UPDATE SKIP LOCKED);
    UPDATE wh_dead_letters l
       SET recovery_status = CASE l.operator_disposition WHEN 3 THEN 4 ELSE 2 END, row_version = l.row_version + 1
     WHERE l.dead_letter_id = ANY (v_lost);
    PERFORM let_stream_of_letter_go(l) FROM wh_dead_letters l
     WHERE l.dead_letter_id = ANY (v_lost) AND l.recovery_status = 4;
    UPDATE dead_letter_deaths e SET verdict = 'no_answer', verdict_at = p_now
      FROM wh_dead_letters l
     WHERE l.dead_letter_id = ANY (v_lost) AND e.dead_letter_id = l.dead_letter_id AND e.number = l.deaths
       AND e.recovery_sent_at IS NOT NULL AND e.verdict IS NULL;
    PERFORM end_recovery_items(
        jsonb_agg(jsonb_build_object('item_id', i.item_id, 'state', 'no_answer', 'why', 'its message is nowhere')), p_now)
      FROM recovery_items i
     WHERE i.dead_letter_id = ANY (v_lost) AND i.state = 'sent'
    HAVING count(*) > 0;
    RETURN cardinality(v_lost);
END $$;
