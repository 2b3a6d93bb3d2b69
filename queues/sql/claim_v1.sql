-- Lanes of {{work}} that cannot be claimed from, and until when that need not be asked again.
CREATE FUNCTION blocked_{{work}}(p_now timestamptz) RETURNS TABLE (lane text, until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT p.value, least(p.until, p_now + interval '30 seconds')
      FROM source_pauses p
     WHERE p.source = '{{work}}' AND p.kind <> 'source' AND (p.until IS NULL OR p.until > p_now)
    UNION ALL
    SELECT d.name, greatest(d.retry_at, p_now + interval '1 second')
      FROM destination_circuits d
     WHERE '{{work}}' = 'wh_outbox' AND d.state <> 'closed'
$$;

-- Says whether a row without a stream is due in a lane.
--
-- A lane is a range of one index, compared and ordered by all its columns, so that no other index fits: one by due
-- time alone would be read through the rows of every other lane.
CREATE FUNCTION is_lane_due_{{work}}(p_lane text, p_now timestamptz DEFAULT clock_timestamp()) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT true FROM {{work}} w
         WHERE w.stream_id IS NULL AND w.processed_at IS NULL
           AND ({{lane}}, w.scheduled_for) >= (p_lane, '-infinity') AND ({{lane}}, w.scheduled_for) <= (p_lane, p_now)
         ORDER BY {{lane}}, w.scheduled_for, w.position LIMIT 1), false)
$$;

-- Lanes in which rows without a stream wait, in order from p_after on (NULL = the first), p_limit at most; `is_due`:
-- one of the rows is. One step in the index for each lane, however many rows wait in it.
CREATE FUNCTION due_lanes_{{work}}(p_after text, p_limit integer, p_now timestamptz DEFAULT clock_timestamp())
RETURNS TABLE (lane text, is_due boolean) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE lanes AS (
        (SELECT {{lane}}::text AS lane, 1 AS number FROM {{work}} w
          WHERE w.stream_id IS NULL AND w.processed_at IS NULL AND {{lane}} >= coalesce(p_after, '')
          ORDER BY {{lane}} LIMIT 1)
        UNION ALL
        SELECT n.lane, l.number + 1 FROM lanes l CROSS JOIN LATERAL (
               SELECT {{lane}}::text AS lane FROM {{work}} w
                WHERE w.stream_id IS NULL AND w.processed_at IS NULL AND {{lane}} > l.lane
                ORDER BY {{lane}} LIMIT 1) n
         WHERE l.number < p_limit
    )
    SELECT l.lane, is_lane_due_{{work}}(l.lane, p_now)
      FROM lanes l
     ORDER BY l.lane
$$;

-- Claims a batch of {{work}}: streams first, then rows without a stream. Two snapshots in one round trip: a
-- stream is leased by one statement and read by the next, so that a row which commits in between, or is
-- re-emitted with an old position, is seen in its place.
--
-- p_queue: name in wh_streams. p_token: fresh, one for the whole batch. p_limit: rows at most. p_per_stream:
-- rows of one stream at most. p_generation: the claimer's build; rows for another one stay, with NULL those for any. p_lanes: lanes of rows
-- without a stream to claim from, NULL = the due ones. p_now: defaults to the database clock; no other decides.
-- Returns ids and small columns, never bodies. `lapsed`: the row was under a lease that ran out;
-- `was_started`: it ran alone then, with its start recorded, so its charge is already in `attempts`.
-- A row of a lapsed lease without a recorded start gets one provisional charge and becomes a suspect, unless a
-- recorded start in its stream explains the loss. One with a recorded start is lost (reason 6) until its next report,
-- since this claim may be given back, and is no suspect any more: its charges count.
-- A lane is what can be stopped and what has its fair share: {{lanes}}. Nothing of a paused source or lane is
-- claimed; a destination whose circuit is not closed is tried with one row when its time has come.
-- No row = nothing is due. One row of NULLs = due streams were looked at, none of which may run now, and there may be
-- more of them: the caller claims again. Locks: circuits, stream rows, then rows; all skip what others hold.
CREATE FUNCTION claim_{{work}}(
    p_queue text, p_instance uuid, p_token uuid, p_limit integer, p_per_stream integer, p_lease interval,
    p_generation text DEFAULT NULL, p_lanes text[] DEFAULT NULL, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (
    message_id uuid, "position" bigint, stream_id uuid, message_type varchar, attempts integer, delays integer,
    releases integer, life integer, suspect boolean, failure_reason integer, max_attempts integer, max_delays integer,
    dead_letter_id uuid, body_bytes integer, lapsed boolean, was_started boolean
) LANGUAGE plpgsql{{planned}} AS $$
#variable_conflict use_column
DECLARE
    v_trying text[] := '{}';
    v_tried text[];
    v_blocked text[];
    v_lanes text[] := '{}';
    v_from text[];
    v_streams uuid[];
    v_holders uuid[];
    v_kept uuid[];
    v_lapsed uuid[];
    v_rows uuid[];
    v_free uuid[];
    v_started uuid[];
    v_explained uuid[];
    v_charged uuid[];
    v_left integer := p_limit;
    v_quota integer;
    v_claimed integer;
BEGIN
    IF EXISTS (
        SELECT FROM source_pauses p
         WHERE p.source = '{{work}}' AND (p.until IS NULL OR p.until > p_now)
           AND (p.kind = 'source' OR p_queue = '{{work}}:' || p.value)
    ) THEN
        RETURN;
    END IF;
    v_trying := try_circuits('{{work}}', p_lease, p_now);
    v_blocked := ARRAY(SELECT b.lane FROM blocked_{{work}}(p_now) b WHERE b.lane <> ALL (v_trying));
    IF {{has_free}} THEN
        v_lanes := coalesce(p_lanes, ARRAY(SELECT l.lane FROM due_lanes_{{work}}(NULL, 1000, p_now) l WHERE l.is_due));
        v_lanes := ARRAY(SELECT l FROM unnest(v_lanes) AS l
                          WHERE l <> ALL (v_blocked) AND l <> ALL (v_trying) ORDER BY random());
    END IF;

    SELECT array_agg(d.stream_id), array_agg(d.held_by), array_agg(d.stream_id) FILTER (WHERE d.lapsed)
      INTO v_streams, v_holders, v_lapsed FROM (
        SELECT s.stream_id, s.held_by, s.lease_token IS NOT NULL AS lapsed
          FROM wh_streams s
         WHERE s.queue = p_queue AND s.due_at <= p_now AND (s.lease_expiry IS NULL OR s.lease_expiry <= p_now)
           AND s.version > 0
         ORDER BY s.due_at
         LIMIT (p_limit + 1) / 2
           FOR UPDATE SKIP LOCKED) d;
    IF v_streams IS NOT NULL THEN  -- each statement is planned anew, which takes long for none
        UPDATE wh_streams s
           SET lease_token = p_token, lease_expiry = p_now + p_lease, instance_id = p_instance
         WHERE s.queue = p_queue AND s.stream_id = ANY ((SELECT v_streams)::uuid[]);

        -- The first due rows of each stream, heads before followers; a row that may not run holds those behind it. Of a
        -- held stream only the row of the letter that holds it. Half of the batch is left to rows without a stream when
        -- there are any, and a destination on trial gets one row.
        SELECT array_agg(o.message_id), coalesce(array_agg(o.lane) FILTER (WHERE o.lane = ANY (v_trying)), '{}')
          INTO v_rows, v_tried FROM (
            SELECT c.message_id, c.lane FROM (
                SELECT r.message_id, r.lane, r.rank, row_number() OVER (PARTITION BY r.lane ORDER BY r.rank) AS in_lane
                  FROM unnest(v_streams, v_holders) AS s(stream_id, held_by)
                 CROSS JOIN LATERAL (
                       SELECT f.message_id, f.lane, row_number() OVER w AS rank, bool_and(f.may_run) OVER w AS due
                         FROM (SELECT w.{{id}} AS message_id, w.position, {{lane}} AS lane,
                                      w.scheduled_for <= p_now AND {{lane}} <> ALL (v_blocked)
                                      AND (w.only_generation IS NULL OR w.only_generation = p_generation) AS may_run
                                 FROM {{work}} w
                                WHERE s.held_by IS NULL AND w.stream_id = s.stream_id AND w.processed_at IS NULL{{in_queue}}
                                ORDER BY w.position
                                LIMIT p_per_stream) f
                       WINDOW w AS (ORDER BY f.position)
                       UNION ALL
                       SELECT w.{{id}}, {{lane}}, 1,
                              w.scheduled_for <= p_now AND {{lane}} <> ALL (v_blocked)
                              AND (w.only_generation IS NULL OR w.only_generation = p_generation)
                         FROM {{work}} w
                        WHERE w.dead_letter_id = s.held_by AND w.stream_id = s.stream_id AND w.processed_at IS NULL{{in_queue}}
                 ) r
                 WHERE r.due
            ) c
            WHERE c.in_lane = 1 OR c.lane <> ALL (v_trying)
            ORDER BY c.rank
            LIMIT CASE WHEN cardinality(v_lanes) > 0 THEN (p_limit + 1) / 2 ELSE p_limit END
        ) o;

        -- Streams of which nothing may run, and empty ones, are let go at once.
        v_kept := ARRAY(SELECT w.stream_id FROM {{work}} w WHERE w.{{id}} = ANY ((SELECT v_rows)::uuid[]));
        PERFORM release_streams_{{work}}(p_queue, p_token, ARRAY(SELECT s FROM unnest(v_streams) AS s WHERE s <> ALL (v_kept)));

        IF v_lapsed IS NOT NULL THEN
            SELECT array_agg(w.{{id}}), array_agg(w.stream_id) INTO v_started, v_explained
              FROM {{work}} w
             WHERE w.{{id}} = ANY (v_rows) AND (w.stream_id = ANY (v_lapsed)) IS TRUE AND w.started_at IS NOT NULL;
            v_charged := ARRAY(
                SELECT w.{{id}} FROM {{work}} w
                 WHERE w.{{id}} = ANY (v_rows) AND (w.stream_id = ANY (v_lapsed)) IS TRUE
                   AND (w.started_at IS NOT NULL OR (w.stream_id = ANY (v_explained)) IS NOT TRUE));
            UPDATE {{work}} w
               SET attempts = w.attempts + CASE WHEN w.started_at IS NULL AND NOT w.suspect THEN 1 ELSE 0 END,
                   suspect = w.started_at IS NULL, started_at = NULL,
                   failure_reason = CASE WHEN w.started_at IS NULL THEN w.failure_reason ELSE 6 END
             WHERE w.{{id}} = ANY (v_charged);
        END IF;
        RETURN QUERY
        SELECT w.{{id}}, w.position, w.stream_id, {{type}}, w.attempts, w.delays, w.releases, w.life, w.suspect,
               coalesce(w.failure_reason, 99), w.max_attempts, w.max_delays, w.dead_letter_id, {{bytes}},
               coalesce(w.{{id}} = ANY (v_charged), false), coalesce(w.{{id}} = ANY (v_started), false)
          FROM {{work}} w
         WHERE w.{{id}} = ANY ((SELECT v_rows)::uuid[]);
    END IF;

    -- Rows without a stream: one of each destination on trial, then each lane its share, then whoever has more.
    v_left := p_limit - coalesce(cardinality(v_rows), 0);
    FOR v_round IN 0..2 LOOP
        EXIT WHEN v_left <= 0;
        v_from := CASE WHEN v_round > 0 THEN v_lanes
                       ELSE ARRAY(SELECT t FROM unnest(v_trying) AS t WHERE t <> ALL (coalesce(v_tried, '{}'))) END;
        CONTINUE WHEN cardinality(v_from) = 0;
        v_quota := CASE v_round WHEN 0 THEN 1 WHEN 1 THEN greatest(v_left / cardinality(v_from), 1) ELSE v_left END;
        SELECT array_agg(f.message_id), array_agg(f.message_id) FILTER (WHERE f.lapsed),
               array_agg(f.message_id) FILTER (WHERE f.started)
          INTO v_free, v_lapsed, v_started
          FROM (SELECT f.* FROM unnest(v_from) AS l(lane) CROSS JOIN LATERAL (
                       SELECT w.{{id}} AS message_id, w.lease_token IS NOT NULL AS lapsed,
                              w.started_at IS NOT NULL AS started
                         FROM {{work}} w
                        WHERE w.stream_id IS NULL AND w.processed_at IS NULL
                          AND ({{lane}}, w.scheduled_for) >= (l.lane, '-infinity')
                          AND ({{lane}}, w.scheduled_for) <= (l.lane, p_now)
                          AND (w.lease_expiry IS NULL OR w.lease_expiry <= p_now)
                          AND (w.only_generation IS NULL OR w.only_generation = p_generation)
                        ORDER BY {{lane}}, w.scheduled_for, w.position
                        LIMIT v_quota
                          FOR UPDATE SKIP LOCKED) f
                 LIMIT v_left) f;
        RETURN QUERY
        UPDATE {{work}} w
           SET lease_token = p_token, lease_expiry = p_now + p_lease, instance_id = p_instance,
               attempts = w.attempts
                          + CASE WHEN w.lease_token IS NOT NULL AND w.started_at IS NULL AND NOT w.suspect THEN 1 ELSE 0 END,
               suspect = CASE WHEN w.lease_token IS NOT NULL THEN w.started_at IS NULL ELSE w.suspect END,
               failure_reason = CASE WHEN w.lease_token IS NOT NULL AND w.started_at IS NOT NULL THEN 6
                                     ELSE w.failure_reason END,
               started_at = NULL
         WHERE w.{{id}} = ANY ((SELECT v_free)::uuid[])
        RETURNING w.{{id}}, w.position, w.stream_id, {{type}}, w.attempts, w.delays, w.releases, w.life, w.suspect,
                  coalesce(w.failure_reason, 99), w.max_attempts, w.max_delays, w.dead_letter_id, {{bytes}},
                  coalesce(w.{{id}} = ANY (v_lapsed), false), coalesce(w.{{id}} = ANY (v_started), false);
        GET DIAGNOSTICS v_claimed = ROW_COUNT;
        v_left := v_left - v_claimed;
        EXIT WHEN v_round = 1 AND cardinality(v_from) = 1;
    END LOOP;
    IF v_left = p_limit AND v_streams IS NOT NULL THEN
        RETURN NEXT;
    END IF;
END $$;

-- Lets go of streams held under p_token: an empty one is deleted, another is due when its first row is, and a held
-- one when the row of the letter that holds it is. One whose first row may not run now (paused, a circuit, for
-- another build) is looked at again after a while, lest it crowd the others out of each claim.
-- Locks: stream rows in stream_id order. The rows are read after the lock, by a second snapshot.
CREATE FUNCTION release_streams_{{work}}(p_queue text, p_token uuid, p_streams uuid[]) RETURNS void
LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_held uuid[];
BEGIN
    IF cardinality(p_streams) = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(h.stream_id) INTO v_held FROM (
        SELECT s.stream_id FROM wh_streams s
         WHERE s.queue = p_queue AND s.stream_id = ANY (p_streams) AND s.lease_token = p_token
         ORDER BY s.stream_id FOR UPDATE
    ) h;
    IF v_held IS NULL THEN
        RETURN;
    END IF;
    WITH blocked AS MATERIALIZED (
        SELECT b.lane, max(b.until) AS until FROM blocked_{{work}}(clock_timestamp()) b GROUP BY b.lane
    ), heads AS (
        SELECT s.stream_id, s.version, s.held_by, greatest(
               h.scheduled_for, b.until,
               CASE WHEN h.only_generation IS NOT NULL THEN clock_timestamp() + interval '5 seconds' END) AS due_at
          FROM wh_streams s
          LEFT JOIN LATERAL (
               (SELECT w.scheduled_for, w.only_generation, {{lane}} AS lane FROM {{work}} w
                 WHERE s.held_by IS NULL AND w.stream_id = s.stream_id AND w.processed_at IS NULL{{in_queue}}
                 ORDER BY w.position LIMIT 1)
               UNION ALL
               (SELECT w.scheduled_for, w.only_generation, {{lane}} FROM {{work}} w
                 WHERE w.dead_letter_id = s.held_by AND w.stream_id = s.stream_id AND w.processed_at IS NULL{{in_queue}}
                 LIMIT 1)) h ON true
          LEFT JOIN blocked b ON b.lane = h.lane
         WHERE s.queue = p_queue AND s.stream_id = ANY (v_held)
    ), emptied AS (
        DELETE FROM wh_streams s USING heads h
         WHERE s.queue = p_queue AND s.stream_id = ANY (v_held) AND s.stream_id = h.stream_id AND h.due_at IS NULL AND h.held_by IS NULL
           AND s.version = h.version
    )
    UPDATE wh_streams s
       SET lease_token = NULL, lease_expiry = NULL, instance_id = NULL, due_at = coalesce(h.due_at, never())
      FROM heads h
     WHERE s.queue = p_queue AND s.stream_id = ANY (v_held) AND s.stream_id = h.stream_id AND (h.due_at IS NOT NULL OR h.held_by IS NOT NULL);
END $$;

-- Gives back what of a batch was not run: nothing is counted. Rows that are gone or taken over are left alone.
CREATE FUNCTION release_{{work}}(p_queue text, p_token uuid, p_messages uuid[], p_streams uuid[]) RETURNS void
LANGUAGE plpgsql{{planned}} AS $$
BEGIN
    PERFORM release_streams_{{work}}(p_queue, p_token, p_streams);
    UPDATE {{work}} w SET lease_token = NULL, lease_expiry = NULL, instance_id = NULL, started_at = NULL
     WHERE w.{{id}} = ANY (p_messages) AND w.lease_token = p_token;
END $$;

-- Says whether every message and stream is still held under p_token, and locks them: streams by id, then rows
-- by position. False = the claim is lost; the caller rolls its whole group back.
CREATE FUNCTION fence_{{work}}(p_queue text, p_token uuid, p_messages uuid[], p_streams uuid[]) RETURNS boolean
LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_streams integer;
    v_rows integer;
BEGIN
    SELECT count(*) INTO v_streams FROM (
        SELECT 1 FROM wh_streams s
         WHERE s.queue = p_queue AND s.stream_id = ANY (p_streams) AND s.lease_token = p_token
         ORDER BY s.stream_id FOR UPDATE) held;
    SELECT count(*) INTO v_rows FROM (
        SELECT 1 FROM {{work}} w
         WHERE w.{{id}} = ANY (p_messages) AND (w.stream_id = ANY (p_streams) OR w.lease_token = p_token)
         ORDER BY w.position FOR UPDATE) held;
    RETURN v_streams = cardinality(p_streams) AND v_rows = cardinality(p_messages);
END $$;

-- Extends the leases held under p_token to p_lease from now. Rows that a recording holds are skipped: they
-- need no lease any more. Returns how many leases were extended.
CREATE FUNCTION renew_{{work}}(p_queue text, p_token uuid, p_messages uuid[], p_streams uuid[], p_lease interval)
RETURNS integer LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_streams integer;
    v_rows integer;
BEGIN
    UPDATE wh_streams s SET lease_expiry = clock_timestamp() + p_lease
     WHERE s.queue = p_queue AND s.stream_id IN (
           SELECT h.stream_id FROM wh_streams h
            WHERE h.queue = p_queue AND h.stream_id = ANY (p_streams) AND h.lease_token = p_token
              FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_streams = ROW_COUNT;
    UPDATE {{work}} w SET lease_expiry = clock_timestamp() + p_lease
     WHERE w.{{id}} IN (
           SELECT h.{{id}} FROM {{work}} h
            WHERE h.{{id}} = ANY (p_messages) AND h.lease_token = p_token
              FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_streams + v_rows;
END $$;
