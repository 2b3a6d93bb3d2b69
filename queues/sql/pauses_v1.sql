-- After a pause, or before the trial of a destination: lets drainers look at once at streams that they put off.
--
-- p_queues: names in wh_streams. p_until: streams that are put off until then at most; NULL = for half a minute, as a
-- claim does that finds the first message of a stream paused. p_limit: streams at most; the others come by themselves.
-- Returns how many there were. Locks: stream rows in order; those that others hold are skipped.
CREATE FUNCTION look_again_at_streams(
    p_queues text[], p_until timestamptz, p_limit integer, p_now timestamptz DEFAULT clock_timestamp()
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_streams integer;
BEGIN
    UPDATE wh_streams s SET due_at = p_now
      FROM (SELECT p.queue, p.stream_id FROM wh_streams p
             WHERE p.queue = ANY (p_queues) AND p.version > 0 AND p.due_at > p_now
               AND p.due_at <= coalesce(p_until, p_now + interval '30 seconds') AND p.held_by IS NULL
             ORDER BY p.queue, p.stream_id
             LIMIT p_limit
               FOR UPDATE SKIP LOCKED) put_off
     WHERE s.queue = put_off.queue AND s.stream_id = put_off.stream_id;
    GET DIAGNOSTICS v_streams = ROW_COUNT;
    RETURN v_streams;
END $$;
