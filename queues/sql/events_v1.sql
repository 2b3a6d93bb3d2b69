-- Events and those who project them.

-- Whoever appends events, by this library or by SQL, feeds each perspective that is subscribed to their types, in
-- the same transaction. Rows get their positions in the order of the streams' versions.
CREATE FUNCTION wh_event_store_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO wh_perspective_events (event_work_id, stream_id, perspective_name, event_id, envelope_bytes)
    SELECT gen_random_uuid(), e.stream_id, s.perspective_name, e.event_id,
           coalesce(e.envelope_bytes, pg_column_size(e.event_data))
      FROM appended e JOIN perspective_subscriptions s ON s.event_type = e.event_type
     ORDER BY e.stream_id, e.version
    ON CONFLICT (stream_id, perspective_name, event_id) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER wh_event_store_feed AFTER INSERT ON wh_event_store
    REFERENCING NEW TABLE AS appended FOR EACH STATEMENT EXECUTE FUNCTION wh_event_store_feed();

-- Appends one event to a stream.
--
-- p_expected: version of the stream's last event, 0 = it has none; NULL takes the next version, whatever it is.
-- Returns what happened and a version: `appended` and the event's; `present` and its version, when the stream has
-- an event of this id already; `conflict` and the stream's, when that is not the expected one; `elsewhere` and 0,
-- when the id is in another stream. Locks: an appender waits for another one of the stream until that commits, and
-- then takes the version after it; versions have no gap.
CREATE FUNCTION append_event(
    p_event_id uuid, p_stream_id uuid, p_event_type text, p_event_data jsonb, p_metadata jsonb DEFAULT '{}',
    p_envelope_raw bytea DEFAULT NULL, p_envelope_bytes integer DEFAULT NULL, p_expected integer DEFAULT NULL
) RETURNS TABLE (result text, version integer) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_event wh_event_store;
    v_version integer;
BEGIN
    LOOP
        SELECT * INTO v_event FROM wh_event_store e WHERE e.event_id = p_event_id;
        IF FOUND AND v_event.stream_id = p_stream_id THEN
            RETURN QUERY SELECT 'present', v_event.version;
            RETURN;
        ELSIF FOUND THEN
            RETURN QUERY SELECT 'elsewhere', 0;
            RETURN;
        END IF;
        SELECT coalesce(max(e.version), 0) INTO v_version FROM wh_event_store e WHERE e.stream_id = p_stream_id;
        IF p_expected <> v_version THEN
            RETURN QUERY SELECT 'conflict', v_version;
            RETURN;
        END IF;
        INSERT INTO wh_event_store (event_id, stream_id, event_type, event_data, metadata, version, envelope_raw,
                                    envelope_bytes)
        VALUES (p_event_id, p_stream_id, p_event_type, p_event_data, p_metadata, v_version + 1, p_envelope_raw,
                p_envelope_bytes)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN QUERY SELECT 'appended', v_version + 1;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Moves a perspective's cursors on, each from the version where its events were applied to that of the last of them.
--
-- p_streams, p_events, p_at, p_versions: of each stream its last event, and the two versions; 0 = it may have no cursor
-- yet. Returns how many were moved: fewer than were given = one is elsewhere, and the caller rolls all of it back.
-- Locks the cursors. How it is planned: as the functions on the way of every message are.
CREATE FUNCTION move_cursors(
    p_perspective text, p_streams uuid[], p_events uuid[], p_at integer[], p_versions integer[]
) RETURNS integer LANGUAGE plpgsql{{planned}} AS $$
DECLARE
    v_moved integer;
BEGIN
    WITH moves AS (
        SELECT * FROM unnest(p_streams, p_events, p_at, p_versions) AS m(stream_id, event_id, at, version)
    ), moved AS (
        UPDATE wh_perspective_cursors c
           SET last_event_id = m.event_id, version = m.version, processed_at = clock_timestamp()
          FROM moves m
         WHERE c.stream_id = m.stream_id AND c.perspective_name = p_perspective AND c.version = m.at
        RETURNING 1
    ), made AS (
        INSERT INTO wh_perspective_cursors (stream_id, perspective_name, last_event_id, version, processed_at)
        SELECT m.stream_id, p_perspective, m.event_id, m.version, clock_timestamp() FROM moves m WHERE m.at = 0
        ON CONFLICT (stream_id, perspective_name) DO NOTHING
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM moved) + (SELECT count(*) FROM made) INTO v_moved;
    RETURN v_moved;
END $$;
