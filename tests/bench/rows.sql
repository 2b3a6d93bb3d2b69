-- Rows of the inbox with bodies of 2 KB as orders have them, claimed under a token by an instance.
INSERT INTO wh_inbox (message_id, message_type, event_data, metadata, envelope_bytes, attempts, lease_token,
                      lease_expiry, instance_id, started_at)
SELECT gen_random_uuid(), 'bench.ChargeCard',
       jsonb_build_object(
           'order_id', n, 'customer', md5(n::text), 'placed_at', now(), 'note', repeat('please ring twice. ', 10),
           'lines', (SELECT jsonb_agg(jsonb_build_object('sku', md5((n * l)::text), 'title', 'A useful thing no ' || l,
                                                         'quantity', l, 'price', 19.95, 'weight_grams', 100 * l))
                       FROM generate_series(1, 12) AS l)),
       jsonb_build_object('headers', jsonb_build_object('tenant', '7', 'trace', md5((n + 1)::text))), 2048, 10, c.token,
       now() + interval '1 hour', c.instance, now()
  FROM generate_series(1, %s) AS n, (SELECT %s::uuid AS token, %s::uuid AS instance) c
