-- The move itself, as one statement, on what move_{{work}} has found out and locked.
--
-- p_sources: the ids of p_moves. p_marked: those whose stream is held under p_lease_token, or without one under a live
-- lease of another instance. p_again: of rows that re-open a letter {source_id, dead_letter_id, spent}; p_letters: these
-- letters; p_taken: ids that letters have already.
-- moved, now_in, types: the ids of moved rows and of their letters, and the types that there are; held: what hold_streams takes; given_up: what
-- let_streams_go takes; again: what judge_deaths takes. Each is NULL for none.
-- A session keeps the plan, be it made while the tables were empty: nothing is looked up here but rows by arrays of
-- their ids. `deadletters.counted` tells the tables' triggers that what is inserted is counted here.
CREATE FUNCTION take_{{work}}(
    p_moves jsonb, p_instance_id uuid, p_generation text, p_lease_token uuid, p_force boolean, p_now timestamptz,
    p_sources uuid[], p_marked uuid[], p_again jsonb, p_letters uuid[], p_taken uuid[],
    OUT moved uuid[], OUT now_in uuid[], OUT types text[], OUT held jsonb, OUT given_up jsonb, OUT again jsonb
) LANGUAGE plpgsql
SET plan_cache_mode = auto SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_lost boolean;
BEGIN
    PERFORM set_config('deadletters.counted', 'on', true);
    WITH moves AS (
        SELECT m.*, o.dead_letter_id AS again_id, o.spent,
               CASE WHEN p.id IS NULL THEN c.is_automatic ELSE p.is_automatic END AS is_automatic,
               CASE WHEN p.id IS NULL THEN c.max_recoveries ELSE p.max_recoveries END AS max_recoveries,
               CASE WHEN p.id IS NULL THEN c.cooldown_seconds ELSE p.cooldown_seconds END AS cooldown_seconds,
               CASE WHEN p.id IS NULL THEN c.then ELSE p.then END AS then
          FROM jsonb_to_recordset(p_moves) AS m(
               dead_letter_id uuid, source_id uuid, failure_reason integer, error_text text, failure_detail jsonb,
               cause text, last_reported_error text, attempts integer, fingerprint text, fingerprint_version smallint,
               with_stored boolean, holds boolean)
          -- As `recovery_policy_of` says, which would be planned anew for each row.
          LEFT JOIN recovery_policies p ON p.cause = coalesce(m.cause, 'operator') AND p.failure_reason = m.failure_reason
          LEFT JOIN recovery_policies c ON c.cause = coalesce(m.cause, 'operator') AND c.failure_reason IS NULL
          LEFT JOIN jsonb_to_recordset(p_again) AS o(source_id uuid, dead_letter_id uuid, spent integer)
            ON o.source_id = m.source_id
    ), gone AS (
        DELETE FROM {{work}} w USING moves m
         WHERE w.{{id}} = ANY (p_sources) AND w.{{id}} = m.source_id
           AND CASE WHEN p_lease_token IS NOT NULL
                    THEN w.lease_token IS NOT DISTINCT FROM p_lease_token OR w.{{id}} = ANY (p_marked)
                    ELSE p_force OR NOT (
                        coalesce(w.lease_expiry > p_now, false) AND w.instance_id IS DISTINCT FROM p_instance_id
                        OR w.{{id}} = ANY (p_marked))
                    END
        RETURNING w.*, m.dead_letter_id AS given_id, m.failure_reason AS given_reason,
                  CASE WHEN m.with_stored THEN dead_letter_joined_error(m.error_text, w.error) ELSE m.error_text END
                      AS given_error,
                  coalesce(nullif(m.failure_detail, 'null'::jsonb), CASE WHEN m.with_stored THEN w.failure_detail END)
                      AS given_detail,
                  coalesce(m.cause, 'operator') AS cause, coalesce(m.attempts, w.attempts) AS given_attempts,
                  m.last_reported_error, m.fingerprint, m.fingerprint_version, coalesce(m.holds, {{holds}}) AS holds,
                  coalesce(m.is_automatic, false) AS is_automatic, m.max_recoveries, m.cooldown_seconds,
                  CASE m.then WHEN 'give_up' THEN 4 ELSE 2 END AS spent_status, m.again_id, m.spent
    ), counted AS (
        INSERT INTO flow_deltas (source, died, removed)
        SELECT '{{work}}', count(*), -count(*) FROM gone HAVING count(*) > 0
    ), first AS (
        INSERT INTO wh_dead_letters AS l (
               dead_letter_id, source_table, source_id, stream_id, message_type, destination, perspective_name,
               envelope, metadata, envelope_raw, envelope_bytes, failure_reason, error_text, error_line,
               failure_detail, cause, attempts_when_dlq, delays_when_dlq, life, dead_lettered_at,
               first_dead_lettered_at, dead_lettered_by, generation, error_fingerprint, error_fingerprint_version,
               source_row, recovery_status, next_recovery_at)
        SELECT CASE WHEN g.dead_letter_id IS NOT NULL AND g.dead_letter_id <> ALL (p_taken) THEN g.dead_letter_id
                    WHEN g.given_id IS NOT NULL AND g.given_id <> ALL (p_taken) THEN g.given_id
                    ELSE gen_random_uuid() END,
               '{{work}}', g.{{id}}, g.stream_id, {{message_type}}, {{destination}}, {{perspective_name}}, {{envelope}},
               {{metadata}}, {{envelope_raw}}, g.envelope_bytes, g.given_reason, g.given_error,
               dead_letter_line(g.given_error), g.given_detail, g.cause, g.given_attempts, g.delays, g.life, p_now,
               p_now, p_instance_id, p_generation, g.fingerprint, g.fingerprint_version,
               {{snapshot}},
               CASE WHEN g.is_automatic AND g.max_recoveries = 0 THEN g.spent_status ELSE 0 END,
               CASE WHEN g.is_automatic AND g.max_recoveries > 0
                    THEN p_now + cooldown_after(g.cooldown_seconds, 0) END
          FROM gone g{{from_event}}
         WHERE g.again_id IS NULL
        RETURNING l.dead_letter_id, l.source_id, l.error_fingerprint, l.error_fingerprint_version, l.recovery_status,
                  l.message_type
    ), again AS (
        UPDATE wh_dead_letters l
           SET source_table = '{{work}}', source_id = g.{{id}}, stream_id = g.stream_id,
               message_type = {{message_type}}, destination = {{destination}},
               perspective_name = {{perspective_name}}, envelope = {{envelope}}, metadata = {{metadata}},
               envelope_raw = {{envelope_raw}}, envelope_bytes = g.envelope_bytes, failure_reason = g.given_reason,
               error_text = g.given_error, error_line = dead_letter_line(g.given_error),
               failure_detail = g.given_detail, cause = g.cause, attempts_when_dlq = g.given_attempts,
               delays_when_dlq = g.delays, life = g.life, dead_lettered_at = p_now, dead_lettered_by = p_instance_id,
               generation = p_generation, error_fingerprint = g.fingerprint,
               error_fingerprint_version = g.fingerprint_version, fingerprint_checked_at = NULL,
               source_row = {{snapshot}}, deaths = l.deaths + 1, row_version = l.row_version + 1, recovered_at = NULL,
               recovery_attempts = g.spent,
               recovery_status = CASE l.operator_disposition WHEN 1 THEN 0 WHEN 2 THEN 2 WHEN 3 THEN 4
                   ELSE CASE WHEN g.is_automatic AND g.spent >= g.max_recoveries THEN g.spent_status ELSE 0 END END,
               next_recovery_at = CASE
                   WHEN l.operator_disposition = 1 THEN p_now
                   WHEN l.operator_disposition = 0 AND g.is_automatic AND g.spent < g.max_recoveries
                   THEN p_now + cooldown_after(g.cooldown_seconds, g.spent) END
          FROM gone g{{from_event}}
         WHERE l.dead_letter_id = ANY (p_letters) AND l.dead_letter_id = g.again_id
        RETURNING l.dead_letter_id, l.source_id, l.deaths, l.error_fingerprint, l.error_fingerprint_version,
                  l.recovery_status, l.message_type
    ), letters AS (
        SELECT f.dead_letter_id, f.source_id, 1 AS deaths, f.error_fingerprint, f.error_fingerprint_version,
               f.recovery_status, f.message_type
          FROM first f
        UNION ALL
        SELECT * FROM again
    ), died AS (
        INSERT INTO dead_letter_deaths (dead_letter_id, number, dead_lettered_at, dead_lettered_by, generation, life,
               cause, failure_reason, error_text, last_reported_error, failure_detail, error_fingerprint,
               error_fingerprint_version, attempts, delays)
        SELECT l.dead_letter_id, l.deaths, p_now, p_instance_id, p_generation, g.life, g.cause, g.given_reason,
               g.given_error, g.last_reported_error, g.given_detail, l.error_fingerprint,
               l.error_fingerprint_version, g.given_attempts, g.delays
          FROM letters l JOIN gone g ON g.{{id}} = l.source_id
    ), about AS (
        INSERT INTO dead_letter_subjects AS s (dead_letter_id, position, type, id, subject_key)
        SELECT k.dead_letter_id, min(k.number), min(k.type), min(k.id), k.key
          FROM (SELECT f.dead_letter_id, s.number, s.subject ->> 'type' AS type, s.subject ->> 'id' AS id,
                       dead_letter_subject_key(s.subject ->> 'type', s.subject ->> 'id') AS key
                  FROM first f
                  JOIN gone g ON g.{{id}} = f.source_id
                 CROSS JOIN LATERAL jsonb_array_elements(
                       CASE WHEN jsonb_typeof(g.given_detail -> 'subjects') = 'array'
                            THEN g.given_detail -> 'subjects' ELSE '[]'::jsonb END)
                       WITH ORDINALITY AS s(subject, number)
                 WHERE s.number <= 1000) k
         WHERE k.key IS NOT NULL
         GROUP BY k.dead_letter_id, k.key
        RETURNING s.dead_letter_id, s.type, s.id, s.subject_key
    ), of_groups AS (
        INSERT INTO group_deltas (fingerprint, version, source_table, recovery_status, operator_disposition, n,
                                  deaths, hour, generation, seen_at)
        SELECT f.error_fingerprint, f.error_fingerprint_version, '{{work}}', f.recovery_status, 0, count(*), count(*),
               date_trunc('hour', p_now, 'UTC'), left(p_generation, 200), p_now
          FROM first f
         GROUP BY 1, 2, 4
    ), of_subjects AS (
        INSERT INTO subject_deltas (subject_key, subject_type, subject_id, recovery_status, n, seen_at)
        SELECT a.subject_key, min(a.type), min(a.id), f.recovery_status, count(*), p_now
          FROM about a JOIN first f ON f.dead_letter_id = a.dead_letter_id
         GROUP BY a.subject_key, f.recovery_status
    )
    SELECT array_agg(l.source_id), array_agg(l.dead_letter_id), array_agg(DISTINCT l.message_type),
           -- A message that came back holds its stream only if it still does: to let that go is a lasting decision.
           jsonb_agg(jsonb_build_object('queue', {{queue}}, 'stream_id', w.stream_id, 'position', w.position,
                                        'held_by', l.dead_letter_id))
               FILTER (WHERE w.holds AND w.stream_id IS NOT NULL AND w.dead_letter_id IS NULL
                         AND l.recovery_status <> 4),
           jsonb_agg(jsonb_build_object('queue', {{queue}}, 'stream_id', w.stream_id, 'held_by', l.dead_letter_id))
               FILTER (WHERE w.stream_id IS NOT NULL AND l.recovery_status = 4),
           jsonb_agg(jsonb_build_object('dead_letter_id', l.dead_letter_id, 'deaths', l.deaths,
                                        'item_id', w.recovery_item_id))
               FILTER (WHERE l.deaths > 1 OR w.recovery_item_id IS NOT NULL),
           count(*) <> (SELECT count(*) FROM gone)
      INTO moved, now_in, types, held, given_up, again, v_lost
      FROM letters l JOIN gone w ON w.{{id}} = l.source_id;
    PERFORM set_config('deadletters.counted', 'off', true);
    IF v_lost THEN
        RAISE EXCEPTION 'two rows of one letter were moved together' USING ERRCODE = 'unique_violation';
    END IF;
END $$;

-- The letters that rows have already, by the rows' ids.
--
-- Each is looked up as a range that is asked for in its index's order, and nothing may be sorted: no other index fits,
-- whatever statistics say of the letters, and however large that one was once.
CREATE FUNCTION letters_of_{{work}}(p_sources uuid[]) RETURNS TABLE (source_id uuid, dead_letter_id uuid)
LANGUAGE plpgsql{{planned}} SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.id, l.dead_letter_id FROM unnest(p_sources) AS s(id)
     CROSS JOIN LATERAL (
           SELECT l.dead_letter_id FROM wh_dead_letters l
            WHERE (l.source_id, l.source_table) >= (s.id, '{{work}}') AND l.superseded_by IS NULL
              AND (l.source_id, l.source_table) <= (s.id, '{{work}}')
            ORDER BY l.source_id, l.source_table LIMIT 1) l;
END $$;

-- Moves rows of {{work}} to the dead letters, all in the caller's transaction: the row goes, its snapshot, its
-- death, its subjects and the changes of the counts come, all in one statement. A row that was re-emitted from a letter,
-- or whose id is dead already, re-opens that letter, and whoever sent it gets a verdict: `judge_deaths`.
--
-- p_moves: array of objects {dead_letter_id, source_id, failure_reason, error_text, failure_detail, cause,
-- last_reported_error, attempts, fingerprint, fingerprint_version, with_stored, holds}; `attempts` is absolute and
-- defaults to the row's; `with_stored`: the failure that the row has stored is added to the given one; `holds`: the
-- row's stream waits behind it, by default {{holds}}. p_lease_token: only
-- rows (or streams) held under it are moved. Without it a row under a live lease of another instance is left alone
-- unless p_force.
-- Its policy says when a letter is due for the schedule, or what becomes of one whose recoveries are used up; what a
-- person decided comes first. Only the first 1,000 subjects of each are kept, each once.
-- Returns one row for each row moved: its id and the id of the letter that now holds it, which is the given one only
-- if no other letter has it. No row = it was gone already, or is held by somebody else. Raises unique_violation when
-- another transaction takes a letter's id meanwhile: nothing was moved then.
-- Locks: letters in id order, then the streams that are to wait, then work rows, then the rest.
-- Of a letter by its own id nothing is asked that another index has as its condition.
CREATE FUNCTION move_{{work}}(
    p_moves jsonb, p_instance_id uuid, p_generation text, p_lease_token uuid, p_force boolean, p_now timestamptz
) RETURNS TABLE (source_id uuid, dead_letter_id uuid) LANGUAGE plpgsql{{planned}} AS $$
#variable_conflict use_column
DECLARE
    v_sources uuid[];
    v_marked uuid[];
    v_again_from jsonb := '[]';
    v_taken uuid[] := '{}';
    v_given uuid[];
    v_holds boolean;
    v_letters uuid[];
    v_moved uuid[];
    v_now_in uuid[];
    v_types text[];
    v_held jsonb;
    v_given_up jsonb;
    v_again jsonb;
BEGIN
    SELECT array_agg(m.source_id), array_agg(m.dead_letter_id), bool_or(coalesce(m.holds, {{holds}}))
      INTO v_sources, v_given, v_holds
      FROM jsonb_to_recordset(p_moves) AS m(source_id uuid, dead_letter_id uuid, holds boolean);
    v_letters := ARRAY(
        SELECT w.dead_letter_id FROM {{work}} w WHERE w.{{id}} = ANY (v_sources) AND w.dead_letter_id IS NOT NULL
        UNION
        SELECT l.dead_letter_id FROM letters_of_{{work}}(v_sources) l
        UNION
        SELECT l.dead_letter_id FROM unnest(v_given) AS g(id)
         CROSS JOIN LATERAL (SELECT l.dead_letter_id FROM wh_dead_letters l WHERE l.dead_letter_id = g.id LIMIT 1) l);
    IF cardinality(v_letters) > 0 THEN
        PERFORM 1 FROM wh_dead_letters l
         WHERE l.dead_letter_id = ANY (v_letters)
         ORDER BY l.dead_letter_id
           FOR UPDATE;
        -- The letter that a row re-opens: the one it came from, else the one that its id has; and its recoveries so far.
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'source_id', w.{{id}}, 'dead_letter_id', l.dead_letter_id,
                   'spent', CASE WHEN l.retried_on_generations @> ARRAY[p_generation] OR EXISTS (
                                     SELECT FROM dead_letter_deaths e
                                      WHERE e.dead_letter_id = l.dead_letter_id AND e.generation = p_generation)
                                 THEN l.recovery_attempts ELSE 0 END)), '[]')
          INTO v_again_from
          FROM {{work}} w
          LEFT JOIN LATERAL (
               SELECT d.dead_letter_id, d.superseded_by FROM wh_dead_letters d
                WHERE d.dead_letter_id = w.dead_letter_id LIMIT 1) a ON a.superseded_by IS NULL
          LEFT JOIN letters_of_{{work}}(v_sources) b ON b.source_id = w.{{id}}
         CROSS JOIN LATERAL (
               SELECT d.* FROM wh_dead_letters d
                WHERE d.dead_letter_id = coalesce(a.dead_letter_id, b.dead_letter_id) LIMIT 1) l
         WHERE w.{{id}} = ANY (v_sources);
        v_taken := ARRAY(SELECT l.dead_letter_id FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (v_letters));
    END IF;
    v_marked := ARRAY(
        SELECT w.{{id}} FROM {{work}} w
         CROSS JOIN LATERAL (
               SELECT s.lease_token, s.lease_expiry, s.instance_id FROM wh_streams s
                WHERE s.queue = {{queue}} AND s.stream_id = w.stream_id LIMIT 1) s
         WHERE w.{{id}} = ANY (v_sources) AND w.stream_id IS NOT NULL
           AND CASE WHEN p_lease_token IS NOT NULL THEN s.lease_token = p_lease_token
                    ELSE s.lease_expiry > p_now AND s.instance_id IS DISTINCT FROM p_instance_id END);
    IF v_holds THEN
        PERFORM 1 FROM jsonb_to_recordset(p_moves) AS m(source_id uuid, holds boolean)
           JOIN {{work}} w ON w.{{id}} = m.source_id AND w.{{id}} = ANY (v_sources)
           JOIN wh_streams s ON s.queue = {{queue}} AND s.stream_id = w.stream_id
          WHERE coalesce(m.holds, {{holds}})
          ORDER BY s.queue, s.stream_id
            FOR UPDATE OF s;
    END IF;

    SELECT t.moved, t.now_in, t.types, t.held, t.given_up, t.again
      INTO v_moved, v_now_in, v_types, v_held, v_given_up, v_again
      FROM take_{{work}}(p_moves, p_instance_id, p_generation, p_lease_token, p_force, p_now, v_sources, v_marked,
                         v_again_from, v_letters, v_taken) t;
    IF v_held IS NOT NULL THEN
        PERFORM hold_streams(v_held, p_lease_token);
    END IF;
    IF v_given_up IS NOT NULL THEN
        PERFORM let_streams_go(v_given_up, p_now);
    END IF;
    IF v_again IS NOT NULL THEN
        PERFORM write_dead_letter_subjects(v_again);
        PERFORM judge_deaths(v_again, p_now);
    END IF;
    IF EXISTS (SELECT FROM dead_letter_subscriptions s WHERE s.message_type = ANY (v_types)) THEN
        PERFORM announce_deaths(v_now_in);
    END IF;
    RETURN QUERY SELECT m.source_id, m.dead_letter_id FROM unnest(v_moved, v_now_in) AS m(source_id, dead_letter_id);
END $$;
