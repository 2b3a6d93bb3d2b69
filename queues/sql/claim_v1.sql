-- Claims a batch of {{work}}: streams first, then rows without a stream. Two snapshots in one round trip: a
-- stream is leased by one statement and read by the next, so that a row which commits in between, or is
-- re-emitted with an old position, is seen in its place.
--
-- p_queue: name in wh_streams. p_token: fresh, one for the whole batch. p_limit: rows at most. p_per_stream:
-- rows of one stream at most. p_now: defaults to the database clock; no other clock decides anything.
-- Returns ids and small columns, never bodies. `lapsed`: the row was under a lease that ran out;
-- `was_started`: it ran alone then, with its start recorded, so its charge is already in `attempts`.
-- A row of a lapsed lease without a recorded start gets one provisional charge and becomes a suspect, unless a
-- recorded start in its stream explains the loss.
-- A perspective's queue is its own; its rows are told by its name.
-- No row = nothing is due. Locks: stream rows, then rows; both skip what others hold.
CREATE FUNCTION claim_{{work}}(
    p_queue text, p_instance uuid, p_token uuid, p_limit integer, p_per_stream integer, p_lease interval,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (
    message_id uuid, "position" bigint, stream_id uuid, message_type varchar, attempts integer, delays integer,
    releases integer, life integer, suspect boolean, failure_reason integer, max_attempts integer, max_delays integer,
    dead_letter_id uuid, body_bytes integer, lapsed boolean, was_started boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_streams uuid[];
    v_lapsed uuid[];
    v_rows uuid[];
BEGIN
    WITH due AS (
        SELECT s.stream_id, s.lease_token IS NOT NULL AS lapsed
          FROM wh_streams s
         WHERE s.queue = p_queue AND s.due_at <= p_now AND (s.lease_expiry IS NULL OR s.lease_expiry <= p_now)
         ORDER BY s.due_at
         LIMIT (p_limit + 1) / 2
           FOR UPDATE SKIP LOCKED
    ), leased AS (
        UPDATE wh_streams s
           SET lease_token = p_token, lease_expiry = p_now + p_lease, instance_id = p_instance
          FROM due
         WHERE s.queue = p_queue AND s.stream_id = due.stream_id
        RETURNING s.stream_id, due.lapsed
    )
    SELECT array_agg(l.stream_id), array_agg(l.stream_id) FILTER (WHERE l.lapsed) INTO v_streams, v_lapsed
      FROM leased l;

    -- The first due rows of each stream, heads before followers; a row that is not due holds those behind it.
    SELECT array_agg(o.message_id) INTO v_rows FROM (
        SELECT r.message_id
          FROM unnest(v_streams) AS s(stream_id)
         CROSS JOIN LATERAL (
               SELECT f.message_id, row_number() OVER w AS rank, bool_and(f.scheduled_for <= p_now) OVER w AS due
                 FROM (SELECT w.{{id}} AS message_id, w.position, w.scheduled_for
                         FROM {{work}} w
                        WHERE w.stream_id = s.stream_id AND w.processed_at IS NULL{{in_queue}}
                        ORDER BY w.position
                        LIMIT p_per_stream) f
               WINDOW w AS (ORDER BY f.position)
         ) r
         WHERE r.due
         ORDER BY r.rank
         LIMIT p_limit
    ) o;

    -- Streams whose head is not due, and empty ones, are let go at once.
    PERFORM release_streams_{{work}}(p_queue, p_token, ARRAY(
        SELECT s FROM unnest(v_streams) AS s
        EXCEPT SELECT w.stream_id FROM {{work}} w WHERE w.{{id}} = ANY (v_rows)
    ));

    RETURN QUERY
    WITH member AS (
        SELECT w.{{id}} AS message_id, w.started_at, w.stream_id = ANY (v_lapsed) AS lapsed,
               bool_or(w.started_at IS NOT NULL) OVER (PARTITION BY w.stream_id) AS explained
          FROM {{work}} w
         WHERE w.{{id}} = ANY (v_rows)
    ), charged AS (
        UPDATE {{work}} w
           SET attempts = w.attempts + CASE WHEN m.started_at IS NULL AND NOT w.suspect THEN 1 ELSE 0 END,
               suspect = w.suspect OR m.started_at IS NULL, started_at = NULL
          FROM member m
         WHERE w.{{id}} = m.message_id AND m.lapsed AND (m.started_at IS NOT NULL OR NOT m.explained)
        RETURNING w.{{id}} AS message_id, w.attempts, w.suspect, m.started_at IS NOT NULL AS was_started
    ), free AS (
        SELECT w.{{id}} AS message_id, w.started_at, w.lease_token IS NOT NULL AS lapsed
          FROM {{work}} w
         WHERE w.stream_id IS NULL AND w.processed_at IS NULL{{in_queue}} AND w.scheduled_for <= p_now
           AND (w.lease_expiry IS NULL OR w.lease_expiry <= p_now)
         ORDER BY w.scheduled_for, w.position
         LIMIT p_limit - coalesce(cardinality(v_rows), 0)
           FOR UPDATE SKIP LOCKED
    ), leased AS (
        UPDATE {{work}} w
           SET lease_token = p_token, lease_expiry = p_now + p_lease, instance_id = p_instance,
               attempts = w.attempts + CASE WHEN f.lapsed AND f.started_at IS NULL AND NOT w.suspect THEN 1 ELSE 0 END,
               suspect = w.suspect OR (f.lapsed AND f.started_at IS NULL), started_at = NULL
          FROM free f
         WHERE w.{{id}} = f.message_id
        RETURNING w.{{id}} AS message_id, w.position, w.stream_id, {{type}} AS message_type, w.attempts, w.delays,
                  w.releases, w.life, w.suspect, coalesce(w.failure_reason, 99) AS failure_reason, w.max_attempts,
                  w.max_delays, w.dead_letter_id, {{bytes}} AS body_bytes, f.lapsed,
                  f.started_at IS NOT NULL AS was_started
    )
    SELECT w.{{id}}, w.position, w.stream_id, {{type}}, coalesce(c.attempts, w.attempts), w.delays,
           w.releases, w.life, coalesce(c.suspect, w.suspect), coalesce(w.failure_reason, 99), w.max_attempts, w.max_delays,
           w.dead_letter_id, {{bytes}},
           c.message_id IS NOT NULL, coalesce(c.was_started, false)
      FROM {{work}} w LEFT JOIN charged c ON c.message_id = w.{{id}}
     WHERE w.{{id}} = ANY (v_rows)
    UNION ALL
    SELECT l.message_id, l.position, l.stream_id, l.message_type, l.attempts, l.delays,
           l.releases, l.life, l.suspect, l.failure_reason, l.max_attempts, l.max_delays,
           l.dead_letter_id, l.body_bytes, l.lapsed, l.was_started
      FROM leased l
     ORDER BY 2;
END $$;

-- Lets go of streams held under p_token: an empty one is deleted, another is due when its first row is.
-- Locks: stream rows in stream_id order. The rows are read after the lock, by a second snapshot.
CREATE FUNCTION release_streams_{{work}}(p_queue text, p_token uuid, p_streams uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
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
    WITH heads AS (
        SELECT s.stream_id, s.version, h.scheduled_for
          FROM wh_streams s
          LEFT JOIN LATERAL (
               SELECT w.scheduled_for FROM {{work}} w
                WHERE w.stream_id = s.stream_id AND w.processed_at IS NULL{{in_queue}}
                ORDER BY w.position LIMIT 1) h ON true
         WHERE s.queue = p_queue AND s.stream_id = ANY (v_held)
    ), emptied AS (
        DELETE FROM wh_streams s USING heads h
         WHERE s.queue = p_queue AND s.stream_id = h.stream_id AND h.scheduled_for IS NULL AND s.version = h.version
    )
    UPDATE wh_streams s
       SET lease_token = NULL, lease_expiry = NULL, instance_id = NULL, due_at = h.scheduled_for
      FROM heads h
     WHERE s.queue = p_queue AND s.stream_id = h.stream_id AND h.scheduled_for IS NOT NULL;
END $$;

-- Gives back what of a batch was not run: nothing is counted. Rows that are gone or taken over are left alone.
CREATE FUNCTION release_{{work}}(p_queue text, p_token uuid, p_messages uuid[], p_streams uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM release_streams_{{work}}(p_queue, p_token, p_streams);
    UPDATE {{work}} w SET lease_token = NULL, lease_expiry = NULL, instance_id = NULL, started_at = NULL
     WHERE w.{{id}} = ANY (p_messages) AND w.lease_token = p_token;
END $$;

-- Says whether every message and stream is still held under p_token, and locks them: streams by id, then rows
-- by position. False = the claim is lost; the caller rolls its whole group back.
CREATE FUNCTION fence_{{work}}(p_queue text, p_token uuid, p_messages uuid[], p_streams uuid[]) RETURNS boolean
LANGUAGE plpgsql AS $$
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
RETURNS integer LANGUAGE plpgsql AS $$
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
