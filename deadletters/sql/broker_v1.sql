-- Writes letters of messages that came from a broker and never got into a queue: source `broker`, exact bytes kept.
--
-- p_letters: array of objects {dead_letter_id, source_id, stream_id, message_type, destination, event_data, metadata,
-- failure_reason, error_text, cause, fingerprint, fingerprint_version}; event_data and metadata are JSON as text.
-- p_bodies: the bytes of each, in the same order. A letter of the same id changes nothing. Returns how many are new.
CREATE FUNCTION keep_broker_letters(
    p_letters jsonb, p_bodies bytea[], p_instance_id uuid, p_generation text,
    p_now timestamptz DEFAULT clock_timestamp()
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_kept uuid[];
BEGIN
    WITH letters AS (
        INSERT INTO wh_dead_letters AS l (
               dead_letter_id, source_table, source_id, stream_id, message_type, destination, envelope, metadata,
               envelope_raw, envelope_bytes, failure_reason, error_text, error_line, cause, attempts_when_dlq,
               delays_when_dlq, dead_lettered_at, first_dead_lettered_at, dead_lettered_by, generation,
               error_fingerprint, error_fingerprint_version)
        SELECT n.dead_letter_id, 'broker', n.source_id, n.stream_id, n.message_type, n.destination,
               jsonb_build_object('event_data', n.event_data::jsonb, 'metadata', n.metadata::jsonb),
               n.metadata::jsonb, p_bodies[n.number], octet_length(p_bodies[n.number]), n.failure_reason,
               n.error_text, dead_letter_line(n.error_text), n.cause, 0, 0, p_now, p_now, p_instance_id,
               p_generation, n.fingerprint, n.fingerprint_version
          FROM ROWS FROM (jsonb_to_recordset(p_letters) AS (
               dead_letter_id uuid, source_id uuid, stream_id uuid, message_type text, destination text,
               event_data text, metadata text, failure_reason integer, error_text text, cause text, fingerprint text,
               fingerprint_version smallint)) WITH ORDINALITY AS n(
               dead_letter_id, source_id, stream_id, message_type, destination, event_data, metadata, failure_reason,
               error_text, cause, fingerprint, fingerprint_version, number)
         ORDER BY n.number
        ON CONFLICT (source_id, source_table) WHERE superseded_by IS NULL DO NOTHING
        RETURNING l.*
    ), died AS (
        INSERT INTO dead_letter_deaths (dead_letter_id, number, dead_lettered_at, dead_lettered_by, generation, life,
               cause, failure_reason, error_text, error_fingerprint, error_fingerprint_version, attempts, delays)
        SELECT l.dead_letter_id, l.deaths, p_now, p_instance_id, p_generation, l.life, l.cause, l.failure_reason,
               l.error_text, l.error_fingerprint, l.error_fingerprint_version, 0, 0
          FROM letters l
    )
    SELECT array_agg(l.dead_letter_id) INTO v_kept FROM letters l;
    IF v_kept IS NOT NULL AND EXISTS (SELECT FROM dead_letter_subscriptions) THEN
        PERFORM announce_deaths(v_kept);
    END IF;
    RETURN coalesce(cardinality(v_kept), 0);
END $$;
