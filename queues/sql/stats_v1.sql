-- Counts the rows of {{work}} by what they wait for, each once; reads the table whole, locks nothing. `oldest` is the due
-- time of the longest waiting one, NULL when none waits. Of a leased stream only the head is in flight, or of a held one
-- the row of the letter that holds it: what is due behind it waits. `processed`: left there by a foreign drainer that
-- was done with them.
CREATE FUNCTION count_{{work}}(p_now timestamptz DEFAULT statement_timestamp()) RETURNS TABLE (
    waiting bigint, delayed bigint, held bigint, stopped bigint, in_flight bigint, processed bigint, oldest timestamptz
) LANGUAGE sql STABLE AS $$
    WITH leased AS (
        SELECT s.queue AS p_queue, s.stream_id, s.held_by FROM wh_streams s
         WHERE s.lease_expiry > p_now AND split_part(s.queue, ':', 1) = '{{work}}'
    ), heads AS (
        SELECT h.id FROM leased l CROSS JOIN LATERAL (
               SELECT w.{{id}} AS id FROM {{work}} w
                WHERE w.stream_id = l.stream_id AND w.processed_at IS NULL{{in_queue}}
                  AND (l.held_by IS NULL OR w.dead_letter_id = l.held_by)
                ORDER BY w.position LIMIT 1) h
    )
    SELECT count(*) FILTER (WHERE r.kind = 'waiting'), count(*) FILTER (WHERE r.kind = 'delayed'),
           count(*) FILTER (WHERE r.kind = 'held'), count(*) FILTER (WHERE r.kind = 'stopped'),
           count(*) FILTER (WHERE r.kind = 'in_flight'), count(*) FILTER (WHERE r.kind = 'processed'),
           min(r.scheduled_for) FILTER (WHERE r.kind = 'waiting')
      FROM (SELECT w.scheduled_for, CASE
                       WHEN w.processed_at IS NOT NULL THEN 'processed'
                       WHEN w.lease_expiry > p_now OR h.id IS NOT NULL AND w.scheduled_for <= p_now THEN 'in_flight'
                       WHEN w.scheduled_for >= never() THEN 'stopped'
                       WHEN s.held_by IS NOT NULL AND w.dead_letter_id IS DISTINCT FROM s.held_by THEN 'held'
                       WHEN w.scheduled_for > p_now THEN 'delayed'
                       ELSE 'waiting' END AS kind
              FROM {{work}} w
              LEFT JOIN wh_streams s ON s.queue = {{queue}} AND s.stream_id = w.stream_id
              LEFT JOIN heads h ON h.id = w.{{id}}) r
$$;
