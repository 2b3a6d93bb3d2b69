-- Subjects of the letters just written, and rows of those that are recovering: each waits for its run in the next day.
SELECT write_dead_letter_subjects(ARRAY(
           SELECT md5('letter:' || %(salt)s || ':' || n)::uuid
             FROM generate_series(%(first)s::bigint, %(last)s::bigint) n)),
       (SELECT count(CASE l.source_table
                     WHEN 'wh_outbox' THEN emit_wh_outbox(l, d.due_at)
                     WHEN 'wh_perspective_events' THEN emit_wh_perspective_events(l, d.due_at)
                     ELSE emit_wh_inbox(l, d.due_at) END)
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
          JOIN wh_dead_letters l ON l.dead_letter_id = md5('letter:' || %(salt)s || ':' || n)::uuid
         CROSS JOIN LATERAL (SELECT %(until)s::timestamptz
                                    + (1 + 23 * pg_temp.share(n, %(salt)s + 8)) * interval '1 hour' AS due_at) d
         WHERE l.recovery_status = 1)
