-- Units: as drafts, with their versions and log rows, one change set after the other, the live
-- one of a source version last: an address is unique among units that are not voided.
DO $do$
DECLARE
    v_set uuid;
BEGIN
    FOR v_set IN
        SELECT c.change_set_id FROM cutter_governance.cut_change_set c ORDER BY c.live, c.at, c.change_set_id
    LOOP
        INSERT INTO iu_core.information_unit (unit_id, change_set_id, document_id, source_document_id,
            source_version_id, ordinal, canonical_address, citation_address, unit_kind, section_type,
            content_hash, body_hash, idempotency_key, lifecycle_status, created_at)
        SELECT u.unit_id, u.change_set_id, u.document_id, u.source_document_id, u.source_version_id, u.ordinal,
            u.canonical_address, u.citation_address, u.unit_kind, u.section_type, u.content_hash, u.body_hash,
            u.idempotency_key, 'draft', u.created_at
        FROM pg_temp.iu_core_information_unit u
        WHERE u.change_set_id = v_set
        ORDER BY u.ordinal;
        INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash,
            actor, created_at)
        SELECT v.version_id, v.unit_id, v.version_seq,
            (SELECT string_agg(p.content, ''::bytea ORDER BY p.piece)
             FROM pg_temp.iu_core_unit_version_content p WHERE p.version_id = v.version_id),
            v.content_hash, v.body_hash, v.actor, v.created_at
        FROM pg_temp.iu_core_information_unit u
        JOIN pg_temp.iu_core_unit_version v ON v.unit_id = u.unit_id
        WHERE u.change_set_id = v_set
        ORDER BY v.version_seq, v.version_id;
        INSERT INTO iu_core.iu_lifecycle_log (unit_id, change_set_id, run_id, from_status, to_status, reason_id,
            reason, actor, at)
        SELECT l.unit_id, l.change_set_id, l.run_id, l.from_status, l.to_status, l.reason_id, l.reason, l.actor, l.at
        FROM pg_temp.iu_core_iu_lifecycle_log l
        WHERE l.change_set_id = v_set;
        UPDATE iu_core.information_unit i SET lifecycle_status = u.lifecycle_status
        FROM pg_temp.iu_core_information_unit u
        WHERE i.change_set_id = v_set AND u.unit_id = i.unit_id AND u.lifecycle_status <> 'draft';
    END LOOP;
END
$do$;
