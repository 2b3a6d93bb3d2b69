-- Which policy a letter has, and how long it waits for its next recovery. The same rules in Python: `words/policies`.

-- The policy of a letter: that of its cause and reason, else that of its cause; all NULL when nobody made one, and
-- then the schedule leaves it alone. A letter of an adopted database has no cause: reason 6 tells a lost worker,
-- anything else spent its budget.
CREATE FUNCTION recovery_policy_of(p_cause text, p_reason integer) RETURNS recovery_policies LANGUAGE sql STABLE AS $$
    SELECT p.*
      FROM recovery_policies p
     WHERE p.cause = coalesce(nullif(p_cause, ''), CASE p_reason WHEN 6 THEN 'worker_lost' ELSE 'budget_spent' END)
       AND (p.failure_reason = p_reason OR p.failure_reason IS NULL)
     ORDER BY p.failure_reason NULLS LAST
     LIMIT 1
$$;

-- The wait between a death and the next recovery of a letter that was recovered p_attempts times: the cooldown doubled
-- with each, at most a day, between half and all of it by p_spread in [0, 1).
CREATE FUNCTION cooldown_after(
    p_cooldown_seconds integer, p_attempts integer, p_spread double precision DEFAULT random()
) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(p_cooldown_seconds * 2.0::double precision ^ least(p_attempts, 60), 86400)
           * (0.5 + p_spread / 2) * interval '1 second'
$$;
