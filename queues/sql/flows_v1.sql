-- What has flowed through each source, exactly, by append and fold: `flow_deltas` are appended by whoever writes or
-- deletes work rows, in the writer's transaction, so that no two writers meet at a row; a folder adds them to
-- `flow_totals`. A reader adds totals and waiting deltas in one statement. At every committed moment, per source:
-- sent + returned = rows in the table + succeeded + died + removed.
--
-- Triggers count every writer: rows that come as sent or returned, rows that go as removed. Who deletes a row because
-- its message succeeded or died says so with a delta that takes it off the removed ones again.

-- Rows come and go for ever: vacuum by number, not by share.
ALTER TABLE flow_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE flow_totals SET (fillfactor = 50);

-- TRUNCATE fires no trigger for deleted rows. Its lock keeps every other writer out, so the count is exact; a snapshot
-- from before the lock would miss rows that TRUNCATE takes all the same.
CREATE FUNCTION count_truncated_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION '% cannot be truncated in a transaction that is %: its rows would be miscounted',
                        TG_TABLE_NAME, current_setting('transaction_isolation')
              USING ERRCODE = 'feature_not_supported', HINT = 'Truncate it in a transaction that is READ COMMITTED.';
    END IF;
    EXECUTE format('INSERT INTO flow_deltas (source, removed) SELECT %L, count(*) FROM %s HAVING count(*) > 0',
                   TG_TABLE_NAME, TG_RELID::regclass);
    RETURN NULL;
END $$;

-- Adds up to p_limit deltas, the oldest first, to the totals.
--
-- Returns how many were eaten. Locks: deltas (those that another folder holds are skipped), then totals in the order
-- of their sources.
CREATE FUNCTION fold_flow_deltas(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_eaten integer;
BEGIN
    WITH picked AS (
        SELECT id FROM flow_deltas ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), eaten AS (
        DELETE FROM flow_deltas d USING picked p WHERE d.id = p.id
        RETURNING d.source, d.sent, d.returned, d.succeeded, d.died, d.removed
    ), summed AS (
        SELECT source, sum(sent) AS sent, sum(returned) AS returned, sum(succeeded) AS succeeded, sum(died) AS died,
               sum(removed) AS removed, count(*) AS deltas
          FROM eaten GROUP BY source
    ), added AS (
        INSERT INTO flow_totals AS t (source, sent, returned, succeeded, died, removed)
        SELECT source, sent, returned, succeeded, died, removed FROM summed ORDER BY source
        ON CONFLICT (source) DO UPDATE
           SET sent = t.sent + excluded.sent, returned = t.returned + excluded.returned,
               succeeded = t.succeeded + excluded.succeeded, died = t.died + excluded.died,
               removed = t.removed + excluded.removed
    )
    SELECT coalesce(sum(deltas), 0) INTO v_eaten FROM summed;
    RETURN v_eaten;
END $$;

-- The flow of each source that has had any: totals and waiting deltas at one moment. Reads only.
CREATE FUNCTION source_flows() RETURNS TABLE (
    source text, sent bigint, returned bigint, succeeded bigint, died bigint, removed bigint
) LANGUAGE sql STABLE AS $$
    SELECT f.source, sum(f.sent)::bigint, sum(f.returned)::bigint, sum(f.succeeded)::bigint, sum(f.died)::bigint,
           sum(f.removed)::bigint
      FROM (SELECT t.source, t.sent, t.returned, t.succeeded, t.died, t.removed FROM flow_totals t
            UNION ALL
            SELECT d.source, d.sent, d.returned, d.succeeded, d.died, d.removed FROM flow_deltas d) f
     GROUP BY f.source
$$;
