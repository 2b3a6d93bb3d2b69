-- Notes what publishing to destinations came to: a circuit opens after failures in a row, and closes by a success.
--
-- p_notes: array of objects {name, failures, wait_ms, error}, each destination once; failures 0 = the last message
-- was published; wait_ms: how long the other side asked for, 0 = it did not say. p_failures: how many in a row open a
-- circuit. An open one is tried again after p_base, p_base * p_factor, ... at most p_cap, or after what was asked for,
-- at most a day. Failures noted while it is open say nothing new; a trial that failed (half open) opens it for longer.
-- Returns the circuits whose state changed. A destination that works and whose circuit is closed is only read.
-- Locks: circuits in order of name.
CREATE FUNCTION note_destinations(
    p_notes jsonb, p_failures integer, p_base interval, p_factor double precision, p_cap interval,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (name varchar, state text, retry_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_works varchar[] := ARRAY(
        SELECT n.name FROM jsonb_to_recordset(p_notes) AS n(name varchar, failures integer) WHERE n.failures = 0);
    v_fails varchar[] := ARRAY(
        SELECT n.name FROM jsonb_to_recordset(p_notes) AS n(name varchar, failures integer) WHERE n.failures > 0);
BEGIN
    INSERT INTO destination_circuits (name)
    SELECT f FROM unnest(v_fails) AS f ORDER BY f
    ON CONFLICT (name) DO NOTHING;
    PERFORM 1 FROM destination_circuits d
     WHERE d.name = ANY (v_fails) OR d.name = ANY (v_works) AND (d.state <> 'closed' OR d.failures > 0)
     ORDER BY d.name FOR UPDATE;

    RETURN QUERY
    WITH worked AS (
        UPDATE destination_circuits d
           SET state = 'closed', failures = 0, opened_at = NULL, retry_at = NULL, changed_at = p_now
          FROM destination_circuits o
         WHERE d.name = ANY (v_works) AND (d.state <> 'closed' OR d.failures > 0) AND o.id = d.id
        RETURNING d.name, d.state, d.retry_at, o.state AS was
    )
    SELECT w.name, w.state, w.retry_at FROM worked w WHERE w.was <> 'closed';

    RETURN QUERY
    WITH counted AS (
        SELECT d.id, n.error, n.wait_ms, d.state AS was,
               CASE d.state WHEN 'closed' THEN least(d.failures + n.failures, p_failures)
                            ELSE least(d.failures + 1, p_failures + 60) END AS failures
          FROM destination_circuits d
          JOIN jsonb_to_recordset(p_notes) AS n(name varchar, failures integer, wait_ms bigint, error text)
            ON n.name = d.name
         WHERE n.failures > 0 AND NOT (d.state = 'open' AND d.retry_at > p_now)
    ), failed AS (
        UPDATE destination_circuits d
           SET failures = c.failures, last_error = c.error, changed_at = p_now,
               state = CASE WHEN c.failures >= p_failures THEN 'open' ELSE d.state END,
               opened_at = CASE WHEN c.failures >= p_failures THEN coalesce(d.opened_at, p_now) ELSE d.opened_at END,
               retry_at = CASE WHEN c.failures >= p_failures THEN p_now + CASE
                   WHEN c.wait_ms > 0 THEN least(c.wait_ms, 86400000) * interval '1 millisecond'
                   ELSE make_interval(secs => least(
                       extract(epoch FROM p_cap)::double precision,
                       extract(epoch FROM p_base)::double precision * power(p_factor, c.failures - p_failures)))
                   END ELSE d.retry_at END
          FROM counted c
         WHERE c.id = d.id
        RETURNING d.name, d.state, d.retry_at, c.was
    )
    SELECT f.name, f.state, f.retry_at FROM failed f WHERE f.state <> f.was;
END $$;
