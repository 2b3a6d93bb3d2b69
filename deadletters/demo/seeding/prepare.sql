-- What the batches of one connection read: choices by number, and tables that go with the connection.

-- A number in [0, 1) that is always the same for the same number and choice.
CREATE OR REPLACE FUNCTION pg_temp.share(n bigint, choice bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT (hashint8extended(n, choice) & 4503599627370495)::float8 / 4503599627370496::float8
$$;

CREATE TEMP TABLE IF NOT EXISTS seed_faults (
    number integer PRIMARY KEY, source_table text, message_type text, destination text, perspective_name text,
    cause text, failure_reason integer, attempts integer, error_text text, fingerprint text, version smallint,
    ends float8, begins float8
);
CREATE TEMP TABLE IF NOT EXISTS seed_bodies (number integer PRIMARY KEY, body jsonb, raw bytea, bytes integer);
TRUNCATE seed_faults, seed_bodies;
