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
