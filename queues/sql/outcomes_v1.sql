-- Records the outcomes of a group of {{work}} that are not deaths.
--
-- p_done: messages that succeeded; their rows are deleted, and streams that were held for one of them run again.
-- p_changes: array of objects {message_id, attempts, delays, releases, due_in_ms, error, failure_detail,
-- failure_reason, failed}: the counts are absolute;
-- due_in_ms counts from the database clock; without `failed` the last failure is kept, but no loss: this run reported.
-- p_token: the claim under which a row without a stream is held. p_streams: those that the caller has fenced in this
-- transaction; their rows are held with them. Only rows that are held are written; without a token all are.
-- Returns the number of rows written: fewer than were given = the claim is lost, and the caller rolls all of it back.
CREATE FUNCTION record_{{work}}(
    p_done uuid[], p_changes jsonb, p_token uuid DEFAULT NULL, p_streams uuid[] DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_done integer := 0;
    v_changed integer := 0;
    v_held jsonb;
    v_staying uuid[];
BEGIN
    IF cardinality(p_done) > 0 THEN
        WITH done AS (
            DELETE FROM {{work}} w
             WHERE w.{{id}} = ANY ((SELECT p_done)::uuid[])
               AND (p_token IS NULL OR w.lease_token = p_token OR w.stream_id = ANY (p_streams))
            RETURNING CASE WHEN w.dead_letter_id IS NOT NULL AND w.stream_id IS NOT NULL THEN
                      jsonb_build_object('queue', {{queue}}, 'stream_id', w.stream_id, 'held_by', w.dead_letter_id)
                      END AS held
        )
        SELECT count(*), jsonb_agg(d.held) FILTER (WHERE d.held IS NOT NULL) INTO v_done, v_held FROM done d;
    END IF;
    IF v_held IS NOT NULL THEN
        PERFORM let_streams_go(v_held);
    END IF;
    IF v_done > 0 THEN
        INSERT INTO flow_deltas (source, succeeded, removed) VALUES ('{{work}}', v_done, -v_done);
    END IF;
    IF p_changes = '[]' THEN
        RETURN v_done;
    END IF;
    v_staying := ARRAY(SELECT c.message_id FROM jsonb_to_recordset(p_changes) AS c(message_id uuid));
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
     WHERE w.{{id}} = ANY ((SELECT v_staying)::uuid[]) AND w.{{id}} = c.message_id
       AND (p_token IS NULL OR w.lease_token = p_token OR w.stream_id = ANY (p_streams));
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
