-- What the batches of one connection read: choices by number, and tables that go with the connection.

-- A number in [0, 1) that is always the same for the same number and choice.
CREATE OR REPLACE FUNCTION pg_temp.share(n bigint, choice bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT (hashint8extended(n, choice) & 4503599627370495)::float8 / 4503599627370496::float8
$$;

-- When the n-th of `count` letters died, unless its group was not at it then: the letters are in the order of time.
CREATE OR REPLACE FUNCTION pg_temp.age(n bigint, count bigint, salt bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT 1 - (n - pg_temp.share(n, salt + 1)) / count
$$;

-- A UUID of version 7 made from a time and a name: as those of the engine, new ones are neighbours in an index.
CREATE OR REPLACE FUNCTION pg_temp.timed_id(name text, at timestamptz) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT overlay(overlay(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || right(md5(name), 20)
                           PLACING '7' FROM 13 FOR 1) PLACING '8' FROM 17 FOR 1)::uuid
$$;
CREATE OR REPLACE FUNCTION pg_temp.letter_id(n bigint, count bigint, salt bigint, until timestamptz, span interval)
RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT pg_temp.timed_id('letter:' || salt || ':' || n, until - pg_temp.age(n, count, salt) * span)
$$;

CREATE TEMP TABLE IF NOT EXISTS seed_faults (
    number integer PRIMARY KEY, source_table text, message_type text, destination text, perspective_name text,
    cause text, failure_reason integer, attempts integer, error_text text, fingerprint text, version smallint,
    ends float8, begins float8
);
CREATE TEMP TABLE IF NOT EXISTS seed_bodies (number integer PRIMARY KEY, body jsonb, raw bytea, bytes integer);
TRUNCATE seed_faults, seed_bodies;
