-- Counts the rows of {{work}} by what they wait for, each once; reads the table whole, locks nothing. `oldest` is the due time of the longest
-- waiting one, NULL when none waits. `processed`: left there by a foreign drainer that was done with them.
CREATE FUNCTION count_{{work}}(p_now timestamptz DEFAULT statement_timestamp()) RETURNS TABLE (
    waiting bigint, delayed bigint, held bigint, stopped bigint, in_flight bigint, processed bigint, oldest timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT count(*) FILTER (WHERE r.kind = 'waiting'), count(*) FILTER (WHERE r.kind = 'delayed'),
           count(*) FILTER (WHERE r.kind = 'held'), count(*) FILTER (WHERE r.kind = 'stopped'),
           count(*) FILTER (WHERE r.kind = 'in_flight'), count(*) FILTER (WHERE r.kind = 'processed'),
           min(r.scheduled_for) FILTER (WHERE r.kind = 'waiting')
      FROM (SELECT w.scheduled_for, CASE
                       WHEN w.processed_at IS NOT NULL THEN 'processed'
                       WHEN w.lease_expiry > p_now OR s.lease_expiry > p_now AND w.scheduled_for <= p_now
                            AND (s.held_by IS NULL OR w.dead_letter_id = s.held_by) THEN 'in_flight'
                       WHEN w.scheduled_for >= never() THEN 'stopped'
                       WHEN s.held_by IS NOT NULL AND w.dead_letter_id IS DISTINCT FROM s.held_by THEN 'held'
                       WHEN w.scheduled_for > p_now THEN 'delayed'
                       ELSE 'waiting' END AS kind
              FROM {{work}} w LEFT JOIN wh_streams s ON s.queue = {{queue}} AND s.stream_id = w.stream_id) r
$$;
