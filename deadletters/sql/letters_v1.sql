-- Pure functions of the dead letters, and the guard of the audit.

-- The line that lists show: the first line of an error with something in it, at most 300 characters. NULL stays NULL, so that
-- "no reason recorded" and an empty reason look different.
CREATE FUNCTION dead_letter_line(p_error text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(split_part(ltrim(left(p_error, 2000), E' \t\r\n'), E'\n', 1), 300)
$$;

-- A key of fixed size for a subject, whatever its length.
CREATE FUNCTION dead_letter_subject_key(p_type text, p_id text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT md5(length(p_type)::text || ':' || p_type || ':' || p_id)::uuid
$$;

-- Operator actions are appended, never changed. TRUNCATE is not refused: only the tables' owner may, and test
-- suites do.
CREATE FUNCTION operator_actions_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'operator_actions is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER operator_actions_append_only BEFORE UPDATE OR DELETE ON operator_actions
    FOR EACH ROW EXECUTE FUNCTION operator_actions_append_only();

-- Of the expressions of a partial index the planner knows nothing: it would expect every type to be as rare as the next.
CREATE STATISTICS wh_dead_letters_type_prefix ON (left(message_type, 200)) FROM wh_dead_letters;
CREATE STATISTICS wh_dead_letters_owner_prefix ON (left(owner, 200)) FROM wh_dead_letters;
