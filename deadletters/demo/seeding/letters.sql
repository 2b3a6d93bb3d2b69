-- Letters `first` to `last` of `count`, the oldest first, each with its deaths, subjects, notes and payload versions.
WITH chosen AS MATERIALIZED (
    -- One of `stride` letters goes to the groups in turn, so that each has one; the others to the first ones mostly.
    SELECT n, CASE WHEN mod(n, %(stride)s) = 0 AND n / %(stride)s <= %(groups)s THEN (n / %(stride)s)::integer END AS own,
           1 + floor(%(groups)s * power(pg_temp.share(n, %(salt)s), 2.5))::integer AS any_group,
           pg_temp.age(n, %(count)s, %(salt)s) AS age,
           pg_temp.share(n, %(salt)s + 2) AS u_status, pg_temp.share(n, %(salt)s + 3) AS u_decision,
           pg_temp.share(n, %(salt)s + 4) AS u_deaths, pg_temp.share(n, %(salt)s + 5) AS u_subjects,
           pg_temp.share(n, %(salt)s + 6) AS u_stream, pg_temp.share(n, %(salt)s + 7) AS u_time,
           pg_temp.letter_id(n, %(count)s, %(salt)s, %(until)s, %(span)s) AS dead_letter_id
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
), drawn AS MATERIALIZED (
    SELECT c.n, f.number, least(greatest(c.age, CASE WHEN c.own IS NOT NULL THEN f.ends ELSE 0 END),
                                CASE WHEN c.own IS NOT NULL THEN f.begins ELSE 1 END) AS age,
           c.dead_letter_id, c.u_decision, c.u_time,
           CASE WHEN c.u_status < 0.62 THEN 0 WHEN c.u_status < 0.625 THEN 1 WHEN c.u_status < 0.74 THEN 2
                WHEN c.u_status < 0.94 THEN 3 ELSE 4 END AS status,
           CASE WHEN c.u_deaths < 0.8 THEN 1 WHEN c.u_deaths < 0.92 THEN 2 WHEN c.u_deaths < 0.97 THEN 3
                WHEN c.u_deaths < 0.99 THEN 4 ELSE 5 END AS deaths,
           floor(6 * c.u_subjects * c.u_subjects)::integer AS subjects,
           CASE WHEN c.u_stream < 0.6 THEN floor(%(subjects)s * power(c.u_stream / 0.6, 3))::integer END AS stream,
           (100000 + mod(n * 7919, 899981))::text AS order_number
      FROM chosen c
      JOIN seed_faults a ON a.number = c.any_group
      JOIN seed_faults f ON f.number = coalesce(
           c.own, CASE WHEN c.age BETWEEN a.ends AND a.begins THEN a.number ELSE 1 + mod(a.number * 31, %(steady)s) END)
), told AS MATERIALIZED (
    SELECT d.*, f.source_table, f.message_type, f.destination, f.perspective_name, f.cause, f.failure_reason,
           f.attempts, f.fingerprint, f.version, replace(f.error_text, '{n}', d.order_number) AS error_text,
           %(until)s::timestamptz - d.age * %(span)s::interval AS died_at,
           (0.5 + 30 * d.u_time) * interval '1 hour' AS between_deaths,
           (%(builds)s::text[])[1 + floor((1 - d.age) * cardinality(%(builds)s::text[]) * 0.999)::integer] AS generation,
           CASE d.status WHEN 0 THEN CASE WHEN d.u_decision < 0.01 THEN 1 ELSE 0 END
                         WHEN 1 THEN CASE WHEN d.u_decision < 0.05 THEN 2 ELSE 0 END
                         WHEN 2 THEN CASE WHEN d.u_decision < 0.7 THEN 2 ELSE 0 END
                         WHEN 3 THEN 0
                         ELSE CASE WHEN d.u_decision < 0.8 THEN 3 ELSE 0 END END AS disposition,
           (ARRAY['olga', 'tomasz', 'mei', 'Zoë', 'amara'])[1 + mod(d.n, 5)] AS person,
           CASE WHEN d.subjects > 0 THEN (
               SELECT jsonb_agg(jsonb_build_object(
                          'type', (ARRAY['order', 'customer', 'sku', 'warehouse', 'invoice', 'carrier'])[1 + mod(p.at, 6)],
                          'id', CASE WHEN mod(p.at, 97) = 13 THEN (%(odd_subjects)s::text[])[
                                          1 + mod(p.at / 97, cardinality(%(odd_subjects)s::text[]))] || ' ' || p.at
                                     ELSE (10000 + p.at)::text END) ORDER BY s)
                 FROM generate_series(1, d.subjects) s
                CROSS JOIN LATERAL (SELECT floor(%(subjects)s * power(
                      pg_temp.share(d.n, %(salt)s + 20 + s), 3))::integer AS at) p) END AS about
      FROM drawn d JOIN seed_faults f ON f.number = d.number
), written AS MATERIALIZED (
    SELECT t.*, coalesce(b.body, (
               -- Read from a text: half the work of building it.
               '{"order_id": "' || t.order_number || '", "customer": "customer-' || mod(t.n, 5003)
               || '", "email": "customer-' || mod(t.n, 5003) || '@mail.example", "fate": "fine", "cents": 1999,'
               '"card_number": "4242 4242 4242 4242", "warehouse": "north",'
               '"address": {"street": "1 Harbour Street", "city": "Zürich", "country": "CH"},'
               '"lines": [{"sku": "sku-' || mod(t.n, 307) || '", "quantity": 2, "cents": 1999}]}')::jsonb) AS body,
           b.raw, coalesce(b.bytes, 320) AS bytes,
           ('{' || coalesce('"stream": "order-' || t.stream || '", ', '') || '"headers": {"traceparent": "00-'
            || replace(t.dead_letter_id::text, '-', '') || '-00f067aa0ba902b7-01"'
            || CASE WHEN mod(t.n, 20) = 0 THEN ', "authorization": "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2VjcmV0"' ELSE '' END
            || '}}')::jsonb AS metadata,
           pg_temp.timed_id('source:' || %(salt)s || ':' || t.n, t.died_at) AS source_id,
           pg_temp.timed_id('event:' || %(salt)s || ':' || t.n, t.died_at) AS event_id,
           CASE WHEN t.stream IS NOT NULL OR t.source_table = 'wh_perspective_events'
                THEN md5('stream:' || %(salt)s || ':' || coalesce(t.stream, t.n))::uuid END AS stream_id,
           md5('worker:' || %(salt)s || ':' || mod(t.n, 4))::uuid AS worker,
           CASE WHEN mod(t.n, 3) = 0 THEN CASE WHEN t.about IS NULL THEN '{}' ELSE jsonb_build_object('subjects', t.about) END || jsonb_build_object(
                    'detail', jsonb_build_object('attempted_cents', mod(t.n, 50000), 'region', 'eu-' || mod(t.n, 4)))
                WHEN t.about IS NOT NULL THEN jsonb_build_object('subjects', t.about) END AS detail,
           t.died_at + (%(until)s::timestamptz - t.died_at) * (0.1 + 0.4 * t.u_time) AS sent_at,
           t.died_at + (%(until)s::timestamptz - t.died_at) * (0.5 + 0.4 * t.u_time) AS settled_at
      FROM told t
      LEFT JOIN seed_bodies b ON mod(t.n, 50) = 7 AND b.number = mod(t.n / 50, %(bodies)s)
), letters AS (
    INSERT INTO wh_dead_letters (
           dead_letter_id, source_table, source_id, stream_id, message_type, destination, perspective_name, envelope,
           metadata, envelope_raw, envelope_bytes, failure_reason, error_text, error_line, failure_detail, cause,
           attempts_when_dlq, delays_when_dlq, life, deaths, dead_lettered_at, first_dead_lettered_at,
           dead_lettered_by, generation, error_fingerprint, error_fingerprint_version, recovery_status,
           operator_disposition, operator_actor, operator_notes, owner, quiet_until, recovery_attempts,
           recoveries_total, last_recovery_at, next_recovery_at, recovered_at, source_row)
    SELECT w.dead_letter_id, w.source_table, w.source_id, w.stream_id, w.message_type, w.destination,
           w.perspective_name,
           CASE WHEN w.source_table = 'wh_perspective_events'
                THEN jsonb_build_object('event_id', w.event_id, 'perspective_name', w.perspective_name)
                ELSE '{}'::jsonb END || jsonb_build_object('event_data', w.body, 'metadata', w.metadata),
           w.metadata, w.raw, w.bytes, w.failure_reason, w.error_text, dead_letter_line(w.error_text), w.detail,
           w.cause, w.attempts, CASE WHEN w.cause = 'delay_cap' THEN 101 ELSE mod(w.n, 9) / 8 END, w.deaths, w.deaths,
           w.died_at, w.died_at - (w.deaths - 1) * w.between_deaths, w.worker, w.generation, w.fingerprint, w.version,
           w.status, w.disposition, CASE WHEN w.disposition > 0 THEN w.person END,
           CASE WHEN w.disposition = 2 AND mod(w.n, 3) = 0 THEN 'waiting for the supplier' END,
           CASE WHEN mod(w.n, 7) = 0 THEN w.person END,
           CASE WHEN w.status = 0 AND mod(w.n, 211) = 0 THEN %(until)s::timestamptz + interval '2 days' END,
           CASE WHEN w.cause IN ('budget_spent', 'imported') THEN least(w.deaths - 1, 3) ELSE 0 END,
           w.deaths - 1 + CASE WHEN w.status IN (1, 3) THEN 1 ELSE 0 END,
           CASE WHEN w.status IN (1, 3) THEN w.sent_at
                WHEN w.deaths > 1 THEN w.died_at - 0.4 * w.between_deaths END,
           CASE WHEN w.status = 0 AND w.cause IN ('budget_spent', 'imported') AND mod(w.n, 23) = 0
                THEN %(until)s::timestamptz + (1 + 20 * w.u_time) * interval '1 hour' END,
           CASE WHEN w.status = 3 THEN w.settled_at END,
           jsonb_build_object('attempts', w.attempts, 'life', w.deaths, 'status', 1, 'position', w.n, 'created_at',
                              w.died_at - interval '10 minutes')
           || CASE w.source_table WHEN 'wh_perspective_events' THEN jsonb_build_object('event_id', w.event_id)
                                  ELSE '{}' END
      FROM written w
), died AS (
    -- Every eighth letter that died before did so of another fault.
    INSERT INTO dead_letter_deaths (
           dead_letter_id, number, dead_lettered_at, dead_lettered_by, generation, life, cause, failure_reason,
           error_text, failure_detail, error_fingerprint, error_fingerprint_version, attempts, delays,
           recovery_sent_at, recovery_actor, verdict, verdict_at)
    SELECT w.dead_letter_id, k.number, w.died_at - (w.deaths - k.number) * w.between_deaths, w.worker, w.generation,
           k.number, coalesce(o.cause, w.cause), coalesce(o.failure_reason, w.failure_reason),
           CASE WHEN o.number IS NULL THEN w.error_text ELSE replace(o.error_text, '{n}', w.order_number) END,
           CASE WHEN k.is_latest THEN w.detail END,
           CASE WHEN o.number IS NULL THEN w.fingerprint ELSE o.fingerprint END,
           CASE WHEN o.number IS NULL THEN w.version ELSE o.version END, coalesce(o.attempts, w.attempts), 0,
           CASE WHEN NOT k.is_latest THEN w.died_at - (w.deaths - k.number - 0.6) * w.between_deaths
                WHEN w.status IN (1, 3) THEN w.sent_at END,
           CASE WHEN NOT k.is_latest OR w.status IN (1, 3) THEN w.person END,
           CASE WHEN NOT k.is_latest THEN CASE WHEN mod(w.n, 11) = 0 THEN 'no_answer'
                                               WHEN mod(w.n, 8) = 0 THEN 'failed_differently' ELSE 'failed_again' END
                WHEN w.status = 3 THEN 'recovered' END,
           CASE WHEN NOT k.is_latest THEN w.died_at - (w.deaths - k.number - 1) * w.between_deaths
                WHEN w.status = 3 THEN w.settled_at END
      FROM written w
     CROSS JOIN LATERAL (SELECT g AS number, g = w.deaths AS is_latest FROM generate_series(1, w.deaths) g) k
      LEFT JOIN seed_faults o ON NOT k.is_latest AND mod(w.n, 8) = 0 AND mod(w.n, 11) <> 0
                              AND o.number = 1 + mod(w.number, %(groups)s)
), concerned AS (
    INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
    SELECT DISTINCT ON (w.dead_letter_id, k.key) w.dead_letter_id, a.position, a.subject ->> 'type', a.subject ->> 'id',
           k.key
      FROM written w
     CROSS JOIN LATERAL jsonb_array_elements(w.about) WITH ORDINALITY AS a(subject, position)
     CROSS JOIN LATERAL dead_letter_subject_key(a.subject ->> 'type', a.subject ->> 'id') AS k(key)
     ORDER BY w.dead_letter_id, k.key, a.position
), flowed AS (
    -- What the letters went through. One of a broker came to the inbox when it was recovered.
    INSERT INTO flow_deltas (source, sent, returned, succeeded, died)
    SELECT w.source_table, count(*), sum(w.deaths - 1) + count(*) FILTER (WHERE w.status = 3),
           count(*) FILTER (WHERE w.status = 3), sum(w.deaths)
      FROM written w WHERE w.source_table <> 'broker' GROUP BY w.source_table
    UNION ALL
    SELECT 'wh_inbox', count(*), -count(*) FILTER (WHERE w.status = 1), count(*) FILTER (WHERE w.status = 3), 0
      FROM written w WHERE w.source_table = 'broker' AND w.status IN (1, 3) HAVING count(*) > 0
), noted AS (
    INSERT INTO notes (dead_letter_id, text, author, written_at)
    SELECT w.dead_letter_id, (ARRAY['Asked the bank, they look into it.', 'Same customer as yesterday.',
               'Do not recover before the price list is fixed.', E'<b>bold?</b> no.\nSecond line with ' || w.order_number,
               'تم إبلاغ العميل'])[1 + mod(w.n / 47, 5)], w.person, w.died_at + interval '20 minutes'
      FROM written w
     WHERE mod(w.n, 47) = 5
)
INSERT INTO dead_letter_payloads (dead_letter_id, version, message_id, envelope, envelope_raw, edited_by, reason, at)
SELECT w.dead_letter_id, v.version, w.source_id,
       jsonb_build_object('event_data', CASE v.version WHEN 1 THEN w.body - 'address' ELSE w.body END,
                          'metadata', w.metadata),
       NULL, CASE v.version WHEN 2 THEN w.person END, CASE v.version WHEN 2 THEN 'added the address' ELSE '' END,
       w.died_at + interval '30 minutes'
  FROM written w CROSS JOIN (VALUES (1), (2)) v(version)
 WHERE mod(w.n, 997) = 3 AND jsonb_typeof(w.body) = 'object'
