-- Fingerprints of error texts: what makes two dead letters one fault.

-- Version 1, of the source system: the first capitalised name of line 1 and the first three frames (`   at NAME`)
-- that are not the framework's, as 16 hex characters of their SHA-256. NULL stays NULL; no text makes it raise.
-- Only the first 256 Ki characters count.
CREATE FUNCTION dead_letter_error_fingerprint(p_error text) RETURNS varchar
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT left(encode(sha256(convert_to(array_to_string(
               coalesce(substring(lines[1] FROM '[A-Z][A-Za-z0-9_]+(?:\.[A-Z][A-Za-z0-9_]+)*'), '') || ARRAY(
                   SELECT f.frame
                     FROM unnest(lines) WITH ORDINALITY AS l(line, number)
                    CROSS JOIN LATERAL (SELECT substring(l.line FROM '^\s+at\s+([^\s(]+)') AS frame) f
                    WHERE l.number > 1
                      AND f.frame !~ '^(?:(?:Microsoft|System|Npgsql)\.|Whizbang\.Core\.(?:Workers|Messaging\.Internal)\.)'
                    ORDER BY l.number
                    LIMIT 3),
               ':'), 'UTF8')), 'hex'), 16)
      FROM (SELECT string_to_array(left(p_error, 262144), E'\n') AS lines) s
$$;

CREATE FUNCTION dead_letter_error_fingerprint_version() RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1::smallint';

-- The fingerprint of a letter without an error text. Movers in any language agree on it, so it counts as version 2.
CREATE FUNCTION dead_letter_cause_fingerprint(p_cause text, p_reason integer) RETURNS varchar
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(encode(sha256(convert_to('cause:' || coalesce(p_cause, '') || ':' || coalesce(p_reason, 99), 'UTF8')), 'hex'), 16)
$$;

-- A letter that comes without a fingerprint, or without its version, from whatever writer, gets one: groups know no
-- NULL, and version 1 is the one that others have.
CREATE FUNCTION wh_dead_letters_fingerprint() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.error_fingerprint IS NOT NULL THEN
        NEW.error_fingerprint_version := 1;
    ELSIF NEW.error_text ~ '\S' THEN
        NEW.error_fingerprint := dead_letter_error_fingerprint(NEW.error_text);
        NEW.error_fingerprint_version := dead_letter_error_fingerprint_version();
    ELSE
        NEW.error_fingerprint := dead_letter_cause_fingerprint(NEW.cause, NEW.failure_reason);
        NEW.error_fingerprint_version := 2;
    END IF;
    NEW.fingerprint_checked_at := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER wh_dead_letters_fingerprint BEFORE INSERT OR UPDATE ON wh_dead_letters
    FOR EACH ROW WHEN (NEW.error_fingerprint IS NULL OR NEW.error_fingerprint_version IS NULL)
    EXECUTE FUNCTION wh_dead_letters_fingerprint();
