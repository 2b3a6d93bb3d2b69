-- Exact counts of groups and subjects by append and fold. Triggers append what a statement changed, summed up, in
-- the writer's transaction, so that no two writers meet at a row; a folder adds the changes to the counts. The move
-- appends what it inserts by itself, and says so: `deadletters.counted`, set by its functions while they run. A reader
-- adds counts and waiting changes in one statement. Only current letters count (`superseded_by` is NULL).
-- The LIMITs in the triggers make the planner look each letter up by its key: it knows nothing of what was written.

-- Rows come and go for ever: vacuum by number, not by share.
ALTER TABLE group_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE subject_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE group_counts SET (fillfactor = 50);
ALTER TABLE group_hours SET (fillfactor = 50);

CREATE FUNCTION wh_dead_letters_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO group_deltas (fingerprint, version, source_table, recovery_status, operator_disposition, n, deaths,
                              hour, generation, seen_at)
    SELECT w.error_fingerprint, w.error_fingerprint_version, w.source_table, w.recovery_status,
           w.operator_disposition, count(*), count(*), date_trunc('hour', w.dead_lettered_at, 'UTC'),
           left(w.generation, 200), max(w.dead_lettered_at)
      FROM written w
     WHERE w.superseded_by IS NULL
     GROUP BY 1, 2, 3, 4, 5, 8, 9;
    RETURN NULL;
END $$;
CREATE TRIGGER wh_dead_letters_inserted AFTER INSERT ON wh_dead_letters
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT
    WHEN (current_setting('deadletters.counted', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION wh_dead_letters_inserted();

-- Without JIT: of subjects that were never analysed the planner expects so many that compiling would cost a second.
CREATE FUNCTION wh_dead_letters_updated() RETURNS trigger LANGUAGE plpgsql SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM written) THEN  -- every move tries to re-open letters, most of them none
        RETURN NULL;
    END IF;
    WITH changed AS (
        SELECT w.dead_letter_id, w.dead_lettered_at, w.generation, w.deaths > o.deaths AS died,
               w.deaths = o.deaths AND (w.error_fingerprint, w.error_fingerprint_version)
                   <> (o.error_fingerprint, o.error_fingerprint_version) AS renamed,
               o.error_fingerprint AS was_fingerprint, o.error_fingerprint_version AS was_version,
               o.source_table AS was_source, o.recovery_status AS was_status,
               o.operator_disposition AS was_disposition, o.superseded_by IS NULL AS was_current,
               w.error_fingerprint, w.error_fingerprint_version, w.source_table, w.recovery_status,
               w.operator_disposition, w.superseded_by IS NULL AS is_current
          FROM replaced o JOIN written w ON w.dead_letter_id = o.dead_letter_id
         WHERE (o.error_fingerprint, o.error_fingerprint_version, o.source_table, o.recovery_status,
                o.operator_disposition, o.deaths, o.superseded_by IS NULL)
               IS DISTINCT FROM
               (w.error_fingerprint, w.error_fingerprint_version, w.source_table, w.recovery_status,
                w.operator_disposition, w.deaths, w.superseded_by IS NULL)
    ), sides AS (
        SELECT c.was_fingerprint AS fingerprint, c.was_version AS version, c.was_source AS source_table,
               c.was_status AS recovery_status, c.was_disposition AS operator_disposition, -1 AS n, 0 AS deaths,
               NULL::timestamptz AS hour, '' AS generation, NULL::timestamptz AS seen_at
          FROM changed c WHERE c.was_current
        UNION ALL
        SELECT c.error_fingerprint, c.error_fingerprint_version, c.source_table, c.recovery_status,
               c.operator_disposition, 1, 0, NULL, '', NULL
          FROM changed c WHERE c.is_current
        UNION ALL
        SELECT c.error_fingerprint, c.error_fingerprint_version, c.source_table, c.recovery_status,
               c.operator_disposition, 0, 1, date_trunc('hour', c.dead_lettered_at, 'UTC'), left(c.generation, 200),
               c.dead_lettered_at
          FROM changed c WHERE c.is_current AND (c.died OR c.renamed)
        UNION ALL
        SELECT c.was_fingerprint, c.was_version, c.was_source, c.was_status, c.was_disposition, 0, -1,
               date_trunc('hour', c.dead_lettered_at, 'UTC'), left(c.generation, 200), NULL
          FROM changed c WHERE c.was_current AND c.renamed
    ), of_groups AS (
        INSERT INTO group_deltas (fingerprint, version, source_table, recovery_status, operator_disposition, n,
                                  deaths, hour, generation, seen_at)
        SELECT fingerprint, version, source_table, recovery_status, operator_disposition, sum(n), sum(deaths), hour,
               generation, max(seen_at)
          FROM sides
         GROUP BY 1, 2, 3, 4, 5, 8, 9
        HAVING sum(n) <> 0 OR sum(deaths) <> 0
    )
    INSERT INTO subject_deltas (subject_key, subject_type, subject_id, recovery_status, n, seen_at)
    SELECT s.subject_key, min(s.type), min(s.id), v.status, sum(v.n), max(c.dead_lettered_at)
      FROM changed c
     CROSS JOIN LATERAL (
           SELECT b.subject_key, b.type, b.id FROM dead_letter_subjects b
            WHERE b.dead_letter_id = c.dead_letter_id LIMIT 10000) s
     CROSS JOIN LATERAL (VALUES (c.was_status, -1, c.was_current), (c.recovery_status, 1, c.is_current))
           AS v(status, n, counts)
     WHERE v.counts AND (c.was_status, c.was_current) IS DISTINCT FROM (c.recovery_status, c.is_current)
     GROUP BY s.subject_key, v.status
    HAVING sum(v.n) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER wh_dead_letters_updated AFTER UPDATE ON wh_dead_letters
    REFERENCING OLD TABLE AS replaced NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION wh_dead_letters_updated();

-- The deaths and subjects of a deleted letter go with it: they have no foreign key, whose check of each row would be
-- a third of what a move costs.
CREATE FUNCTION wh_dead_letters_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO group_deltas (fingerprint, version, source_table, recovery_status, operator_disposition, n)
    SELECT r.error_fingerprint, r.error_fingerprint_version, r.source_table, r.recovery_status,
           r.operator_disposition, -count(*)
      FROM removed r
     WHERE r.superseded_by IS NULL
     GROUP BY 1, 2, 3, 4, 5;
    WITH about AS (
        DELETE FROM dead_letter_subjects s
         WHERE s.dead_letter_id = ANY (ARRAY(SELECT r.dead_letter_id FROM removed r))
        RETURNING s.dead_letter_id, s.type, s.id, s.subject_key
    )
    INSERT INTO subject_deltas (subject_key, subject_type, subject_id, recovery_status, n, seen_at)
    SELECT a.subject_key, min(a.type), min(a.id), r.recovery_status, -count(*), max(r.dead_lettered_at)
      FROM about a JOIN removed r ON r.dead_letter_id = a.dead_letter_id
     WHERE r.superseded_by IS NULL
     GROUP BY a.subject_key, r.recovery_status;
    DELETE FROM dead_letter_deaths e WHERE e.dead_letter_id = ANY (ARRAY(SELECT r.dead_letter_id FROM removed r));
    RETURN NULL;
END $$;
CREATE TRIGGER wh_dead_letters_deleted AFTER DELETE ON wh_dead_letters
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION wh_dead_letters_deleted();

-- Subjects are written and removed, never changed; each counts under the present status of its letter.
-- It is locked, so that nobody changes it before this is committed.
CREATE FUNCTION dead_letter_subjects_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM wh_dead_letters l
     WHERE l.dead_letter_id = ANY (ARRAY(SELECT DISTINCT c.dead_letter_id FROM counted c))
     ORDER BY l.dead_letter_id
       FOR SHARE;
    INSERT INTO subject_deltas (subject_key, subject_type, subject_id, recovery_status, n, seen_at)
    SELECT c.subject_key, min(c.type), min(c.id), l.recovery_status,
           CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END, max(l.dead_lettered_at)
      FROM counted c
     CROSS JOIN LATERAL (
           SELECT b.recovery_status, b.dead_lettered_at FROM wh_dead_letters b
            WHERE b.dead_letter_id = c.dead_letter_id AND b.superseded_by IS NULL LIMIT 1) l
     GROUP BY c.subject_key, l.recovery_status;
    RETURN NULL;
END $$;
CREATE TRIGGER dead_letter_subjects_inserted AFTER INSERT ON dead_letter_subjects
    REFERENCING NEW TABLE AS counted FOR EACH STATEMENT
    WHEN (current_setting('deadletters.counted', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION dead_letter_subjects_counted();
CREATE TRIGGER dead_letter_subjects_deleted AFTER DELETE ON dead_letter_subjects
    REFERENCING OLD TABLE AS counted FOR EACH STATEMENT EXECUTE FUNCTION dead_letter_subjects_counted();

-- Adds up to p_limit changes to the groups' counts and trends, and makes the groups that are new.
--
-- Returns how many changes were eaten; 0 also when another folder is at work. A death after a group was resolved,
-- or on the build in which it was said to be fixed, makes the group regressed. Locks: a transaction-level advisory
-- lock, then counts in the order of their keys.
CREATE FUNCTION fold_group_deltas(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_eaten integer;
    v_seen jsonb;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('fold_group_deltas')) THEN
        RETURN 0;
    END IF;
    WITH eaten AS (
        DELETE FROM group_deltas WHERE id IN (SELECT id FROM group_deltas ORDER BY id LIMIT p_limit) RETURNING *
    ), counted AS (
        INSERT INTO group_counts AS c (fingerprint, version, source_table, recovery_status, operator_disposition, n)
        SELECT fingerprint, version, source_table, recovery_status, operator_disposition, sum(n)
          FROM eaten GROUP BY 1, 2, 3, 4, 5
        HAVING sum(n) <> 0 OR recovery_status = 0 AND bool_or(n <> 0)  -- also when nothing is left open: changed_at
         ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT (fingerprint, version, source_table, recovery_status, operator_disposition)
        DO UPDATE SET n = c.n + excluded.n, changed_at = statement_timestamp()
    ), hours AS (
        INSERT INTO group_hours AS h (fingerprint, version, hour, generation, deaths)
        SELECT fingerprint, version, hour, generation, sum(deaths)
          FROM eaten WHERE deaths <> 0 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (fingerprint, version, hour, generation) DO UPDATE SET deaths = h.deaths + excluded.deaths
    ), seen AS (
        SELECT fingerprint, version, min(seen_at) AS first, max(seen_at) AS last,
               jsonb_object_agg(generation, seen_at ORDER BY seen_at) FILTER (WHERE deaths > 0) AS deaths_on,
               count(*) AS changes
          FROM eaten GROUP BY 1, 2
    )
    SELECT jsonb_agg(to_jsonb(s)), sum(s.changes) INTO v_seen, v_eaten FROM seen s;

    WITH unknown AS (
        SELECT gen_random_uuid() AS group_id, e.fingerprint, e.version, e.first, e.last, l.*
          FROM jsonb_to_recordset(v_seen) AS e(fingerprint varchar, version smallint, first timestamptz, last timestamptz)
         CROSS JOIN LATERAL (
               SELECT l.dead_letter_id, l.message_type, l.error_line, l.dead_lettered_at
                 FROM wh_dead_letters l
                WHERE l.error_fingerprint = e.fingerprint AND l.error_fingerprint_version = e.version
                  AND l.superseded_by IS NULL
                ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT 1) l
         WHERE NOT EXISTS (SELECT FROM group_fingerprints f
                            WHERE f.fingerprint = e.fingerprint AND f.version = e.version)
    ), made AS (
        INSERT INTO failure_groups (group_id, message_type, sample_letter_id, sample_line, first_seen_at, last_seen_at)
        SELECT group_id, message_type, dead_letter_id, error_line, coalesce(first, dead_lettered_at),
               coalesce(last, dead_lettered_at)
          FROM unknown
    )
    INSERT INTO group_fingerprints (fingerprint, version, group_id) SELECT fingerprint, version, group_id FROM unknown;

    UPDATE failure_groups g
       SET last_seen_at = greatest(g.last_seen_at, s.last), first_seen_at = least(g.first_seen_at, s.first),
           letters = n.letters, open_letters = n.open,
           state = CASE WHEN s.regressed THEN 'regressed' ELSE g.state END,
           state_at = CASE WHEN s.regressed THEN s.last ELSE g.state_at END,
           row_version = g.row_version + CASE WHEN s.regressed THEN 1 ELSE 0 END
      FROM (SELECT f.group_id, min(e.first) AS first, max(e.last) AS last,
                   bool_or(CASE r.state WHEN 'resolved' THEN e.last > r.state_at
                                        WHEN 'fixed' THEN (e.deaths_on ->> r.fixed_in_generation)::timestamptz > r.state_at
                                        ELSE false END) AS regressed
              FROM jsonb_to_recordset(v_seen) AS e(fingerprint varchar, version smallint, first timestamptz,
                   last timestamptz, deaths_on jsonb)
              JOIN group_fingerprints f ON f.fingerprint = e.fingerprint AND f.version = e.version
              JOIN failure_groups r ON r.group_id = f.group_id
             GROUP BY f.group_id) s
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(c.n), 0) AS letters, coalesce(sum(c.n) FILTER (WHERE c.recovery_status = 0), 0) AS open
             FROM group_fingerprints f
            CROSS JOIN LATERAL (
                  SELECT c.n, c.recovery_status FROM group_counts c
                   WHERE c.fingerprint = f.fingerprint AND c.version = f.version LIMIT 10000) c
            WHERE f.group_id = s.group_id) n
     WHERE g.group_id = s.group_id;
    RETURN coalesce(v_eaten, 0);
END $$;

-- Adds up to p_limit changes to the subjects' counts. Returns how many were eaten; 0 also when another folder is
-- at work. Locks: as above.
CREATE FUNCTION fold_subject_deltas(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_eaten integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('fold_subject_deltas')) THEN
        RETURN 0;
    END IF;
    WITH eaten AS (
        DELETE FROM subject_deltas WHERE id IN (SELECT id FROM subject_deltas ORDER BY id LIMIT p_limit) RETURNING *
    ), counted AS (
        INSERT INTO subject_counts AS c (subject_key, recovery_status, type, id, n, last_seen_at)
        SELECT subject_key, recovery_status, min(subject_type), min(subject_id), sum(n), max(seen_at)
          FROM eaten GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2
        ON CONFLICT (subject_key, recovery_status)
        DO UPDATE SET n = c.n + excluded.n, last_seen_at = greatest(c.last_seen_at, excluded.last_seen_at)
    )
    SELECT count(*) INTO v_eaten FROM eaten;
    RETURN v_eaten;
END $$;

-- Letters of a group's fingerprints by source, status and disposition, exactly: counts and waiting changes at one
-- moment. A view, so that every reader adds them the same way.
CREATE VIEW group_totals AS
    SELECT fingerprint, version, source_table, recovery_status, operator_disposition, sum(n)::bigint AS n
      FROM (SELECT fingerprint, version, source_table, recovery_status, operator_disposition, n FROM group_counts
            UNION ALL
            SELECT fingerprint, version, source_table, recovery_status, operator_disposition, n FROM group_deltas) c
     GROUP BY 1, 2, 3, 4, 5;
