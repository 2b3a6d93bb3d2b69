-- The rows of letters that are recovering: each waits for its run in the next day. One statement after all batches,
-- since rows of one stream from two connections would wait for each other.
SELECT count(CASE l.source_table
             WHEN 'wh_outbox' THEN emit_wh_outbox(l, d.due_at)
             WHEN 'wh_perspective_events' THEN emit_wh_perspective_events(l, d.due_at)
             ELSE emit_wh_inbox(l, d.due_at) END)
  FROM generate_series(1, %(count)s::bigint) n
 CROSS JOIN LATERAL (SELECT %(until)s::timestamptz
                            + (1 + 23 * pg_temp.share(n, %(salt)s + 8)) * interval '1 hour' AS due_at) d
  JOIN wh_dead_letters l ON l.dead_letter_id = pg_temp.letter_id(n, %(count)s, %(salt)s, %(until)s, %(span)s)
 WHERE l.recovery_status = 1 AND pg_temp.share(n, %(salt)s + 2) BETWEEN 0.62 AND 0.625
