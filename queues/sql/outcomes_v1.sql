-- Records the outcomes of a group of {{work}} that are not deaths.
--
-- p_done: messages that succeeded; their rows are deleted, and streams that were held for one of them run again.
-- p_changes: array of objects {message_id, attempts, delays, releases, due_in_ms, error, failure_detail,
-- failure_reason, failed}: the counts are absolute;
-- due_in_ms counts from the database clock; without `failed` the last failure is kept, but no loss: this run reported.
-- The caller has fenced the group in this transaction, so rows are addressed by id. Returns the number of rows written.
CREATE FUNCTION record_{{work}}(p_done uuid[], p_changes jsonb) RETURNS integer LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_done integer;
    v_changed integer;
    v_held jsonb;
    v_staying uuid[] := ARRAY(SELECT c.message_id FROM jsonb_to_recordset(p_changes) AS c(message_id uuid));
BEGIN
    SELECT jsonb_agg(jsonb_build_object('queue', {{queue}}, 'stream_id', w.stream_id, 'held_by', w.dead_letter_id))
           FILTER (WHERE w.dead_letter_id IS NOT NULL AND w.stream_id IS NOT NULL)
      INTO v_held FROM {{work}} w WHERE w.{{id}} = ANY (p_done);
    IF v_held IS NOT NULL THEN
        PERFORM let_streams_go(v_held);
    END IF;
    DELETE FROM {{work}} w WHERE w.{{id}} = ANY (p_done);
    GET DIAGNOSTICS v_done = ROW_COUNT;
    IF v_done > 0 THEN
        INSERT INTO flow_deltas (source, succeeded, removed) VALUES ('{{work}}', v_done, -v_done);
    END IF;
    UPDATE {{work}} w
       SET attempts = c.attempts, delays = c.delays, releases = c.releases, suspect = false,
           scheduled_for = clock_timestamp() + c.due_in_ms * interval '1 millisecond',
           error = CASE WHEN c.failed THEN c.error ELSE w.error END,
           failure_detail = CASE WHEN c.failed THEN nullif(c.failure_detail, 'null'::jsonb) ELSE w.failure_detail END,
           failure_reason = CASE WHEN c.failed THEN c.failure_reason
                                 WHEN w.failure_reason = 6 THEN 99 ELSE w.failure_reason END,
           lease_token = NULL, lease_expiry = NULL, instance_id = NULL, started_at = NULL
      FROM jsonb_to_recordset(p_changes) AS c(message_id uuid, attempts integer, delays integer, releases integer,
           due_in_ms bigint, error text, failure_detail jsonb, failure_reason integer, failed boolean)
     WHERE w.{{id}} = ANY (v_staying) AND w.{{id}} = c.message_id;
    GET DIAGNOSTICS v_changed = ROW_COUNT;
    RETURN v_done + v_changed;
END $$;

-- Records, under the claim, that one message starts alone: the run is charged before its handler runs.
-- Returns whether the claim was still held. Locks: the stream, so that nobody who revokes its claim meanwhile misses
-- the charge that he gives back; then the row.
CREATE FUNCTION start_{{work}}(p_queue text, p_token uuid, p_message uuid) RETURNS boolean LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_stream_held boolean;
BEGIN
    PERFORM 1 FROM {{work}} w JOIN wh_streams s ON s.queue = p_queue AND s.stream_id = w.stream_id
      WHERE w.{{id}} = p_message AND s.lease_token = p_token
        FOR SHARE OF s;
    v_stream_held := FOUND;
    UPDATE {{work}} w SET attempts = w.attempts + 1, started_at = clock_timestamp()
     WHERE w.{{id}} = p_message AND (v_stream_held OR w.lease_token = p_token);
    RETURN FOUND;
END $$;
