-- Order and leases of streams, for every queue.

ALTER TABLE wh_streams SET (fillfactor = 50);

-- Turns up to p_limit arrivals of a queue into stream rows; the longest waiting first.
--
-- Returns the number of arrivals eaten. Locks: arrivals (others are skipped), then stream rows in stream_id
-- order. An admission that finds its stream leased waits for that lease's transaction, not for the lease.
CREATE FUNCTION admit_arrivals(p_queue text, p_limit integer, p_now timestamptz DEFAULT clock_timestamp())
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_streams uuid[];
    v_eaten integer;
BEGIN
    WITH picked AS (
        SELECT id FROM wh_arrivals WHERE queue = p_queue ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), eaten AS (
        DELETE FROM wh_arrivals a USING picked p WHERE a.id = p.id RETURNING a.stream_id
    )
    SELECT array_agg(DISTINCT stream_id ORDER BY stream_id), count(*) INTO v_streams, v_eaten FROM eaten;

    INSERT INTO wh_streams (queue, stream_id, due_at)
    SELECT p_queue, s, p_now FROM unnest(v_streams) AS s ORDER BY s
    ON CONFLICT (queue, stream_id) DO UPDATE
       SET version = wh_streams.version + 1, due_at = least(wh_streams.due_at, excluded.due_at);
    RETURN v_eaten;
END $$;
