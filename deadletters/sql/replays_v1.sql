-- What a new build may try once more.

-- The letters of a group that get one free attempt on a build, whatever is left of their automatic recoveries.
--
-- Open or held by their policy; not decided about by a person, but for "retry now"; not quiet, unless until this build;
-- never tried on this build, nor dead on it; of a type or perspective that one of its services registered. Of outbox
-- messages no handler tells the service: theirs is the one whose builds they died on, any where nobody registered that.
-- The cause must be one that the schedule recovers, but in a group that a person marked fixed in this very build. A
-- group that is held, quiet, or fixed in another build has none. Reads only; may be used inside of other statements.
-- The status is added to, so that no plan reads all open letters for one group, whatever is known of the tables.
CREATE FUNCTION replayable_dead_letters(p_group uuid, p_build text, p_now timestamptz) RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
    SELECT l.dead_letter_id
      FROM failure_groups g
      JOIN group_fingerprints f ON f.group_id = g.group_id
      JOIN wh_dead_letters l ON l.error_fingerprint = f.fingerprint AND l.error_fingerprint_version = f.version
     WHERE g.group_id = p_group AND g.operator_disposition = 0 AND g.state <> 'held'
       AND (g.quiet_until IS NULL OR g.quiet_until <= p_now)
       AND coalesce(nullif(g.quiet_until_generation, ''), p_build) = p_build
       AND (g.state <> 'fixed' OR g.fixed_in_generation = p_build)
       AND (g.quiet_until_count IS NULL OR g.quiet_until_count <= (
               SELECT coalesce(sum(t.n), 0)
                 FROM group_fingerprints o
                 JOIN group_totals t ON t.fingerprint = o.fingerprint AND t.version = o.version
                WHERE o.group_id = p_group))
       AND l.superseded_by IS NULL AND l.recovery_status + 0 IN (0, 2) AND l.operator_disposition IN (0, 1)
       AND (l.quiet_until IS NULL OR l.quiet_until <= p_now)
       AND coalesce(nullif(l.quiet_until_generation, ''), p_build) = p_build
       AND NOT l.retried_on_generations @> ARRAY[p_build]
       AND NOT EXISTS (SELECT FROM dead_letter_deaths e
                        WHERE e.dead_letter_id = l.dead_letter_id AND e.generation = p_build)
       AND (g.state = 'fixed' OR (recovery_policy_of(l.cause, l.failure_reason)).is_automatic)
       AND EXISTS (
           SELECT FROM generations b
            WHERE b.build = p_build
              AND CASE l.source_table
                  WHEN 'wh_perspective_events' THEN b.perspectives @> ARRAY[l.perspective_name]
                  WHEN 'wh_outbox' THEN
                      NOT EXISTS (SELECT FROM generations o WHERE o.build = l.generation)
                      OR EXISTS (SELECT FROM generations o WHERE o.build = l.generation AND o.service = b.service)
                  ELSE b.types @> ARRAY[l.message_type] END)
$$;

-- Up to p_limit groups after one in the order of their ids; of each whether a build has something to replay of it and
-- has not begun to. No row = there is no group after it. Not compiled: that takes longer than all the reading.
CREATE FUNCTION groups_to_replay(p_build text, p_after uuid, p_limit integer, p_now timestamptz DEFAULT clock_timestamp())
RETURNS TABLE (group_id uuid, is_due boolean) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT g.group_id,
           NOT EXISTS (SELECT FROM recovery_runs r
                        WHERE r.group_id = g.group_id AND r.generation = p_build AND r.kind = 'replay')
           AND EXISTS (SELECT FROM replayable_dead_letters(g.group_id, p_build, p_now))
      FROM (SELECT group_id FROM failure_groups WHERE group_id > p_after ORDER BY group_id LIMIT p_limit) g
     ORDER BY g.group_id
$$;

-- Up to p_limit groups that a person marked fixed in a build which runs already, and of which it has still to replay
-- something.
CREATE FUNCTION fixed_groups_to_replay(p_build text, p_limit integer, p_now timestamptz DEFAULT clock_timestamp())
RETURNS SETOF uuid LANGUAGE sql STABLE SET jit = off AS $$
    SELECT g.group_id
      FROM failure_groups g
     WHERE g.state = 'fixed' AND g.fixed_in_generation = p_build
       AND NOT EXISTS (SELECT FROM recovery_runs r
                        WHERE r.group_id = g.group_id AND r.generation = p_build AND r.kind = 'replay')
       AND EXISTS (SELECT FROM replayable_dead_letters(g.group_id, p_build, p_now))
     ORDER BY g.group_id
     LIMIT p_limit
$$;

-- Registers builds that live processes report, or notes that they are still there.
--
-- p_builds: array of objects {service, build, types, perspectives}. The first build of a service ships nothing, so that
-- it has no replay, unless a letter that waits died on another build: then there was one before that nobody
-- registered. Returns the ids of the builds. Locks their rows in the order of service and build.
CREATE FUNCTION register_generations(p_builds jsonb, p_now timestamptz DEFAULT clock_timestamp())
RETURNS TABLE (id bigint) LANGUAGE sql AS $$
    INSERT INTO generations AS k (service, build, types, perspectives, first_seen_at, last_seen_at, 
                                  replay_ended_at)
    SELECT b.service, b.build, b.types, b.perspectives, p_now, p_now, s.nothing_at
      FROM jsonb_to_recordset(p_builds) AS b(service text, build text, types text[], perspectives text[])
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM generations o WHERE o.service = b.service) THEN NULL
                       WHEN EXISTS (SELECT FROM wh_dead_letters l
                                     WHERE l.recovery_status IN (0, 2) AND l.superseded_by IS NULL
                                       AND l.generation <> b.build) THEN NULL
                       ELSE p_now END AS nothing_at) s
     ORDER BY b.service, b.build
    ON CONFLICT (service, build) DO UPDATE
       SET last_seen_at = greatest(k.last_seen_at, excluded.last_seen_at),
           types = ARRAY(SELECT unnest(k.types) UNION SELECT unnest(excluded.types) ORDER BY 1),
           perspectives = ARRAY(SELECT unnest(k.perspectives) UNION SELECT unnest(excluded.perspectives) ORDER BY 1)
    RETURNING k.id
$$;

-- Of these builds those that have something to replay, the first seen first: a replay that has not ended, or older
-- builds of the service that went away since it ended. Messages may have died on those meanwhile.
CREATE FUNCTION generations_to_replay(p_ids bigint[]) RETURNS TABLE (id bigint)
LANGUAGE sql STABLE AS $$
    SELECT k.id
      FROM generations k
     WHERE k.id = ANY (p_ids)
       AND (k.replay_ended_at IS NULL OR EXISTS (
               SELECT FROM generations o
                WHERE o.service = k.service AND o.first_seen_at < k.first_seen_at
                  AND o.last_seen_at > k.replay_ended_at AND o.id <> ALL (p_ids)))
     ORDER BY k.first_seen_at, k.id
$$;
