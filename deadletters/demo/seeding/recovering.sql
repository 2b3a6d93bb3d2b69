-- The rows of letters that are recovering: each waits for its run in the next day. One statement after all batches,
-- since rows of one stream from two connections would wait for each other.
SELECT count(*)
  FROM generate_series(1, %(count)s::bigint) n
 CROSS JOIN LATERAL (SELECT %(until)s::timestamptz
                            + (1 + 23 * pg_temp.share(n, %(salt)s + 8)) * interval '1 hour' AS due_at) d
  JOIN wh_dead_letters l ON l.dead_letter_id = pg_temp.letter_id(n, %(count)s, %(salt)s, %(until)s, %(span)s)
 CROSS JOIN LATERAL (
       SELECT ARRAY[l.dead_letter_id], ARRAY[NULL::uuid], ARRAY[l.source_id], ARRAY[l.original_id])
       AS a(letters, items, ids, originals)
 CROSS JOIN LATERAL (
       SELECT emit_wh_outbox(a.letters, a.items, a.ids, a.originals, NULL, d.due_at)
        WHERE l.source_table = 'wh_outbox'
       UNION ALL
       SELECT emit_wh_perspective_events(a.letters, a.items, a.ids, a.originals, NULL, d.due_at)
        WHERE l.source_table = 'wh_perspective_events'
       UNION ALL
       SELECT emit_wh_inbox(a.letters, a.items, a.ids, a.originals, NULL, d.due_at)
        WHERE l.source_table NOT IN ('wh_outbox', 'wh_perspective_events')) e
 WHERE l.recovery_status = 1 AND pg_temp.share(n, %(salt)s + 2) BETWEEN 0.62 AND 0.625
