-- What an operator does to one message of {{work}}, waiting or claimed.

-- Locks the stream of a message, if it has one, so that no claim of it begins or ends meanwhile. A stream that no
-- drainer has admitted yet is admitted. Returns the stream as it is; no row = no stream, or no such message.
CREATE FUNCTION lock_stream_of_{{work}}(p_message uuid) RETURNS SETOF wh_streams LANGUAGE sql AS $$
    INSERT INTO wh_streams AS s (queue, stream_id, due_at)
    SELECT {{queue}}, w.stream_id, clock_timestamp() FROM {{work}} w
     WHERE w.{{id}} = p_message AND w.stream_id IS NOT NULL AND w.processed_at IS NULL
    ON CONFLICT (queue, stream_id) DO UPDATE SET version = s.version + 1
    RETURNING s.*
$$;

-- Stops a message: it is due at p_until, which is when an operator starts it again, and it holds its stream like
-- any first message that waits. A live claim of it, or of its stream, is revoked: what runs under it is rolled back
-- when it reports, and the charge of a recorded start is given back. A claim that lapsed is left to the next one,
-- which knows how to charge it.
--
-- Returns 'stopped', 'revoked' (stopped, and a claim was revoked), 'already', or NULL without such a message.
-- Locks: the stream, then its rows by position.
CREATE FUNCTION stop_{{work}}(p_message uuid, p_until timestamptz) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_stream wh_streams;
    v_due timestamptz;
    v_lease timestamptz;
    v_charged uuid[];
    p_queue text;
BEGIN
    SELECT * INTO v_stream FROM lock_stream_of_{{work}}(p_message);
    p_queue := v_stream.queue;
    SELECT w.scheduled_for, coalesce(v_stream.lease_expiry, w.lease_expiry) INTO v_due, v_lease FROM {{work}} w
     WHERE w.{{id}} = p_message AND w.processed_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF v_due >= p_until THEN
        RETURN 'already';
    ELSIF v_lease IS NULL OR v_lease <= v_now THEN
        UPDATE {{work}} w SET scheduled_for = p_until WHERE w.{{id}} = p_message;
        RETURN 'stopped';
    END IF;

    UPDATE wh_streams s SET lease_token = NULL, lease_expiry = NULL, instance_id = NULL
     WHERE s.queue = v_stream.queue AND s.stream_id = v_stream.stream_id;
    -- Of a stream's messages only one of the first can have been started.
    v_charged := ARRAY(
        SELECT f.message_id FROM (
            SELECT w.{{id}} AS message_id, w.started_at FROM {{work}} w
             WHERE w.stream_id = v_stream.stream_id AND w.processed_at IS NULL{{in_queue}}
             ORDER BY w.position LIMIT 1000) f
         WHERE f.started_at IS NOT NULL);
    UPDATE {{work}} w SET releases = w.releases + 1, started_at = NULL
     WHERE w.started_at IS NOT NULL AND (w.{{id}} = p_message OR w.{{id}} = ANY (v_charged));
    UPDATE {{work}} w SET scheduled_for = p_until, lease_token = NULL, lease_expiry = NULL, instance_id = NULL
     WHERE w.{{id}} = p_message;
    RETURN 'revoked';
END $$;

-- Makes a message due now, a stopped or a delayed one too; nothing is counted.
--
-- Returns 'due'; 'waiting' (it was due already) or 'in_flight' (it runs), and then nothing was changed; NULL without
-- such a message. Locks: the stream, then the row.
CREATE FUNCTION run_now_{{work}}(p_message uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_stream wh_streams;
    v_row record;
    p_queue text;
BEGIN
    SELECT * INTO v_stream FROM lock_stream_of_{{work}}(p_message);
    p_queue := v_stream.queue;
    SELECT w.scheduled_for, w.lease_expiry, w.position INTO v_row FROM {{work}} w
     WHERE w.{{id}} = p_message AND w.processed_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF v_row.lease_expiry > v_now OR v_stream.lease_expiry > v_now AND NOT EXISTS (
          SELECT FROM {{work}} w
           WHERE w.stream_id = v_stream.stream_id AND w.processed_at IS NULL{{in_queue}}
             AND w.position < v_row.position) THEN
        RETURN 'in_flight';
    END IF;
    UPDATE wh_streams s SET due_at = v_now
     WHERE s.queue = v_stream.queue AND s.stream_id = v_stream.stream_id AND s.due_at > v_now;
    UPDATE {{work}} w SET scheduled_for = v_now WHERE w.{{id}} = p_message AND w.scheduled_for > v_now;
    RETURN CASE WHEN FOUND THEN 'due' ELSE 'waiting' END;
END $$;
