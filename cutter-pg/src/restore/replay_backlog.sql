-- Entries: inserted as marked, each walked along the shortest legal path to its status at once.
-- An abandoned entry gives its key back, so it goes before a later one with the same key; one
-- that escalates another goes after it. History, loaded next, must agree at the end.
DO $do$
DECLARE
    v_entry record;
    v_next text;
BEGIN
    LOOP
        SELECT e.* INTO v_entry
        FROM pg_temp.cutter_governance_decision_backlog_entry e
        WHERE NOT EXISTS (SELECT FROM cutter_governance.decision_backlog_entry d WHERE d.entry_id = e.entry_id)
            AND (e.escalates_entry_id IS NULL OR EXISTS (
                SELECT FROM cutter_governance.decision_backlog_entry d WHERE d.entry_id = e.escalates_entry_id))
        ORDER BY e.status <> 'abandoned', e.at, e.entry_id
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
            source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count,
            escalates_entry_id, actor, at)
        VALUES (v_entry.entry_id, v_entry.run_id, v_entry.document_id, v_entry.source_document_id,
            v_entry.source_version_id, 'marked', v_entry.idempotency_key, v_entry.region_sha,
            v_entry.manifest_digest, v_entry.candidate_count, v_entry.escalates_entry_id, v_entry.actor, v_entry.at);
        FOR v_next IN
            WITH RECURSIVE walk(at, path) AS (
                SELECT 'marked', ARRAY['marked']
                UNION ALL
                SELECT t.state, w.path || t.state
                FROM walk w CROSS JOIN LATERAL unnest(cutter_governance.fn_backlog_targets(w.at)) AS t(state)
                WHERE NOT t.state = ANY (w.path)
            )
            SELECT s.state
            FROM (SELECT w.path FROM walk w WHERE w.at = v_entry.status
                  ORDER BY cardinality(w.path), w.path LIMIT 1) p
            CROSS JOIN LATERAL unnest(p.path[2:]) WITH ORDINALITY AS s(state, place)
            ORDER BY s.place
        LOOP
            UPDATE cutter_governance.decision_backlog_entry d SET status = v_next
            WHERE d.entry_id = v_entry.entry_id;
        END LOOP;
    END LOOP;
END
$do$;
