-- Order, leases and holds of streams, for every queue.

ALTER TABLE wh_streams SET (fillfactor = 50);

-- When what is stopped or held is due: not before somebody says so. A time that every reader knows.
CREATE FUNCTION never() RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT timestamptz '9000-01-01 00:00:00+00'
$$;

-- Turns up to p_limit arrivals of a queue into stream rows; the longest waiting first. A held stream is not woken,
-- unless by the row of the letter that holds it.
--
-- Returns the number of arrivals eaten. Locks: arrivals (others are skipped), then stream rows in stream_id
-- order. An admission that finds its stream leased waits for that lease's transaction, not for the lease.
CREATE FUNCTION admit_arrivals(p_queue text, p_limit integer, p_now timestamptz DEFAULT clock_timestamp())
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_streams uuid[];
    v_returned uuid[];
    v_eaten integer;
BEGIN
    WITH picked AS (
        SELECT id FROM wh_arrivals WHERE queue = p_queue ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), eaten AS (
        DELETE FROM wh_arrivals a USING picked p WHERE a.id = p.id RETURNING a.stream_id, a.dead_letter_id
    )
    SELECT array_agg(DISTINCT stream_id ORDER BY stream_id), coalesce(array_agg(dead_letter_id), '{}'), count(*)
      INTO v_streams, v_returned, v_eaten FROM eaten;

    INSERT INTO wh_streams (queue, stream_id, due_at)
    SELECT p_queue, s, p_now FROM unnest(v_streams) AS s ORDER BY s
    ON CONFLICT (queue, stream_id) DO UPDATE
       SET version = wh_streams.version + 1,
           due_at = CASE WHEN wh_streams.held_by IS NULL OR wh_streams.held_by = ANY (v_returned)
                         THEN least(wh_streams.due_at, excluded.due_at) ELSE wh_streams.due_at END;
    RETURN v_eaten;
END $$;

-- Lets streams run again that dead letters hold: each while that letter holds it.
--
-- p_streams: array of objects {queue, stream_id, held_by}. Returns how many were held so. Locks stream rows in order.
CREATE FUNCTION let_streams_go(p_streams jsonb, p_now timestamptz DEFAULT clock_timestamp()) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_gone integer;
BEGIN
    WITH held AS (
        SELECT s.queue, s.stream_id
          FROM jsonb_to_recordset(p_streams) AS h(queue text, stream_id uuid, held_by uuid)
          JOIN wh_streams s ON s.queue = h.queue AND s.stream_id = h.stream_id AND s.held_by = h.held_by
         ORDER BY s.queue, s.stream_id
           FOR UPDATE OF s
    )
    UPDATE wh_streams s SET held_by = NULL, due_at = p_now, version = s.version + 1
      FROM held h WHERE s.queue = h.queue AND s.stream_id = h.stream_id;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END $$;

-- Lets one stream run again, whichever letter holds it; false = it is not held.
CREATE FUNCTION let_stream_go(p_queue text, p_stream_id uuid, p_now timestamptz DEFAULT clock_timestamp())
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE wh_streams s SET held_by = NULL, due_at = p_now, version = s.version + 1
     WHERE s.queue = p_queue AND s.stream_id = p_stream_id AND s.held_by IS NOT NULL;
    RETURN FOUND;
END $$;

-- Lets dead letters hold their streams: nothing of one runs but the letter's own message, until that succeeds or the
-- stream is let go. A stream that is held already stays with the letter that holds it, whose message may be due.
--
-- p_streams: array of objects {queue, stream_id, held_by}. p_token: the caller's claim; any other claim of such a
-- stream is lost, since it may have messages behind the dead one. Locks stream rows in order.
CREATE FUNCTION hold_streams(p_streams jsonb, p_token uuid) RETURNS void LANGUAGE sql AS $$
    INSERT INTO wh_streams AS s (queue, stream_id, due_at, held_by)
    SELECT DISTINCT ON (h.queue, h.stream_id) h.queue, h.stream_id, never(), h.held_by
      FROM jsonb_to_recordset(p_streams) AS h(queue text, stream_id uuid, held_by uuid, "position" bigint)
     ORDER BY h.queue, h.stream_id, h.position
    ON CONFLICT (queue, stream_id) DO UPDATE
       SET held_by = coalesce(s.held_by, excluded.held_by),
           due_at = CASE WHEN s.held_by <> excluded.held_by THEN s.due_at ELSE never() END,
           lease_token = CASE WHEN s.lease_token = p_token THEN s.lease_token END,
           lease_expiry = CASE WHEN s.lease_token = p_token THEN s.lease_expiry END,
           instance_id = CASE WHEN s.lease_token = p_token THEN s.instance_id END
$$;

-- Gives the caller the trial of each destination whose circuit is not closed and whose time has come: nobody else
-- tries it during p_lease. Only the outbox has destinations. Locks circuits, and skips those that others hold.
CREATE FUNCTION try_circuits(p_source text, p_lease interval, p_now timestamptz) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_names text[];
BEGIN
    IF p_source <> 'wh_outbox' THEN
        RETURN '{}';
    END IF;
    WITH due AS (
        SELECT d.id FROM destination_circuits d
         WHERE d.state <> 'closed' AND d.retry_at <= p_now AND NOT EXISTS (
               SELECT FROM source_pauses p
                WHERE p.source = 'wh_outbox' AND p.kind = 'destination' AND p.value = d.name
                  AND (p.until IS NULL OR p.until > p_now))
         ORDER BY d.id
           FOR UPDATE SKIP LOCKED
    ), tried AS (
        UPDATE destination_circuits d
           SET state = 'half_open', retry_at = p_now + p_lease, changed_at = p_now
          FROM due WHERE d.id = due.id
        RETURNING d.name
    )
    SELECT coalesce(array_agg(name), '{}') INTO v_names FROM tried;
    RETURN v_names;
END $$;
