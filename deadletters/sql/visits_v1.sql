-- Notes that a person looks at a page now, and says since when things are new to them.
--
-- p_gap: a person who did not look for so long begins another visit when they do.
-- Returns when their visit before this one ended, NULL = this is the first; is_known is false, and nothing is noted,
-- where that could not be read in half a second: a page does not wait for it.
-- Locks: the person's own row, unless a page of theirs that is still being read has it; that one notes the visit.
CREATE FUNCTION note_visit(
    p_visitor text, p_page text, p_gap interval, p_now timestamptz DEFAULT clock_timestamp(),
    OUT previous_at timestamptz, OUT is_known boolean
) LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    -- Not a row of the table: to learn its columns a session would wait for it, and fail outside of the block.
    v_id bigint;
    v_seen_at timestamptz;
    v_previous_at timestamptz;
BEGIN
    is_known := true;
    SELECT v.id, v.seen_at, v.previous_at INTO v_id, v_seen_at, v_previous_at FROM last_visits v WHERE v.visitor_id = p_visitor AND v.page = p_page;
    IF NOT FOUND THEN
        INSERT INTO last_visits (visitor_id, page, seen_at) VALUES (p_visitor, p_page, p_now) ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    previous_at := CASE WHEN v_seen_at < p_now - p_gap THEN v_seen_at ELSE v_previous_at END;
    PERFORM 1 FROM last_visits v WHERE v.id = v_id AND v.seen_at = v_seen_at FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE last_visits v SET previous_at = note_visit.previous_at, seen_at = p_now WHERE v.id = v_id;
    END IF;
EXCEPTION WHEN lock_not_available THEN
    previous_at := NULL;
    is_known := false;
END
$$;
