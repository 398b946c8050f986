-- Who may do what with cut requests, and the catalogue and grant probe that look at the new
-- objects: those in public, the queue's schema, and the one function that is not the owner's.
SET ROLE cutter_owner;

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT v.grantee, v.privilege, v.kind, o.object
FROM (VALUES
    ('cutter_exec', 'EXECUTE', 'FUNCTION', 'public.fn_cut_request_add public.fn_cut_request_signal
        public.fn_cut_copy_to_staging public.fn_cut_mark_staged_file public.fn_cut_apply public.fn_cut_complete
        public.fn_cut_cleanup cutter_governance.fn_cut_request_new cutter_governance.fn_cut_request_copied
        cutter_governance.fn_cut_request_marked cutter_governance.fn_cut_request_start
        cutter_governance.fn_cut_request_catch_up cutter_governance.fn_cut_request_follow
        cutter_governance.fn_cut_request_completed iu_core.fn_iu_op_cut
        cutter_queue.fn_job_signal_take cutter_queue.fn_job_signal_finish'),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'public.fn_cut_verify_mark
        cutter_governance.fn_cut_request_mark_decided'),
    ('cutter_verify', 'EXECUTE', 'FUNCTION', 'public.fn_cut_verify_cut iu_core.fn_iu_op_verify_cut
        cutter_governance.fn_cut_request_follow'),
    ('cutter_review', 'SELECT', 'TABLE', 'public.cut_request'),
    ('directus', 'SELECT', 'TABLE', 'iu_core.iu_staging_record'),
    -- Whoever takes backups reads everything.
    ('cutter_ro', 'SELECT', 'TABLE', 'cutter_governance.copy_folder public.cut_request_transition_transition_id_seq'),
    ('cutter_owner', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_copy_read')
) AS v(grantee, privilege, kind, objects)
CROSS JOIN LATERAL regexp_split_to_table(v.objects, '\s+') AS o(object);

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'public.' || t.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro', 'directus']) AS g(grantee),
    unnest(ARRAY['cut_request', 'cut_request_transition', 'v_cut_requests_by_status', 'v_cut_request_ready_to_mark',
        'v_cut_request_ready_to_cut', 'v_cut_request_ready_to_verify_cut']) AS t(name);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, v.privilege, v.kind, v.object
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee),
    (VALUES ('USAGE', 'SCHEMA', 'cutter_queue'), ('SELECT', 'TABLE', 'cutter_queue.job_signal'))
        AS v(privilege, kind, object);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_governance.' || f.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro']) AS g(grantee),
    unnest(ARRAY['fn_cut_request_targets', 'fn_cut_signal_statuses']) AS f(name);
-- The ones that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, 'UPDATE', 'TABLE', 'public.cut_request', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'public.fn_cut_request_transition', false),
    ('cutter_exec', 'EXECUTE', 'FUNCTION', 'public.fn_cut_verify_mark', false),
    ('cutter_exec', 'EXECUTE', 'FUNCTION', 'public.fn_cut_verify_cut', false);

SELECT cutter_meta.fn_grant_expected('^(cutter_queue|cutter_queue[.].*|public[.](v_|fn_)?cut_.*'
    '|.*[.]fn_(cut|iu_op)_.*|iu_core[.]iu_staging_record|cutter_governance[.]copy_folder)$');

-- What the server has: every privilege of the run logins, of PUBLIC, and of strangers, on the
-- objects of our schemas and on what cutter_owner owns in public; sequences too.
CREATE OR REPLACE FUNCTION cutter_governance.fn_grants_held()
RETURNS TABLE (grantee text, privilege text, kind text, object text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END,
        a.privilege_type, o.kind, o.object
    FROM (
        SELECT 'TABLE' AS kind, n.nspname || '.' || c.relname AS object, c.relowner AS owner,
            coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner)) AS acl
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S')
            AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
                OR n.nspname = 'public' AND pg_get_userbyid(c.relowner) = 'cutter_owner')
        UNION ALL
        SELECT 'FUNCTION', n.nspname || '.' || p.proname, p.proowner,
            coalesce(p.proacl, acldefault('f', p.proowner))
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
            OR n.nspname = 'public' AND pg_get_userbyid(p.proowner) = 'cutter_owner'
        UNION ALL
        SELECT 'SCHEMA', n.nspname::text, n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
        FROM pg_namespace n WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'public')
        UNION ALL
        SELECT 'DATABASE', '(this)', d.datdba, coalesce(d.datacl, acldefault('d', d.datdba))
        FROM pg_database d WHERE d.datname = current_database()
    ) o
    CROSS JOIN LATERAL aclexplode(o.acl) a
    WHERE a.grantee <> o.owner
        AND NOT (o.kind = 'DATABASE' AND a.privilege_type = 'CONNECT')
        AND NOT (o.kind = 'SCHEMA' AND o.object = 'public' AND a.privilege_type = 'USAGE')
$fn$;

-- Fingerprints of our objects: p_kind is function, trigger or acl. In public: what the owner owns.
CREATE OR REPLACE FUNCTION cutter_governance.fn_catalogue(p_kind text)
RETURNS TABLE (name text, value text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT n.nspname || '.' || p.proname,
        string_agg(md5(p.prosrc) || '|' || encode(sha256(convert_to(pg_get_functiondef(p.oid), 'UTF8')), 'hex')
            || '|' || pg_get_userbyid(p.proowner) || '|' || coalesce(array_to_string(p.proconfig, ';'), '')
            || '|' || coalesce(array_to_string(p.proacl, ';'), ''), '||'
            ORDER BY pg_get_function_identity_arguments(p.oid) COLLATE "C")
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE p_kind = 'function' AND p.prokind = 'f' AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
        OR n.nspname = 'public' AND pg_get_userbyid(p.proowner) = 'cutter_owner')
    GROUP BY n.nspname, p.proname
    UNION ALL
    -- The triggers behind constraints count: DISABLE TRIGGER ALL turns foreign keys off.
    SELECT n.nspname || '.' || c.relname || '.'
            || CASE WHEN t.tgisinternal THEN coalesce(k.conname, '?') || '#' || t.tgtype ELSE t.tgname END,
        string_agg(t.tgenabled::text || '|'
            || CASE WHEN t.tgisinternal THEN '' ELSE pg_get_triggerdef(t.oid) END, '||' ORDER BY t.oid)
    FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
    WHERE p_kind = 'trigger' AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
        OR n.nspname = 'public' AND pg_get_userbyid(c.relowner) = 'cutter_owner')
    GROUP BY 1
    UNION ALL
    SELECT n.nspname || '.' || c.relname,
        pg_get_userbyid(c.relowner) || '|' || coalesce(array_to_string(c.relacl, ';'), '')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p_kind = 'acl' AND c.relkind IN ('r', 'v') AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
        OR n.nspname = 'public' AND pg_get_userbyid(c.relowner) = 'cutter_owner')
$fn$;

-- The grant probe. section is fact, public_execute or violation.
CREATE OR REPLACE FUNCTION cutter_governance.fn_grant_probe()
RETURNS TABLE (section text, name text, wanted boolean, holds boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    WITH held AS MATERIALIZED (
        SELECT DISTINCT h.grantee, h.privilege, h.kind, h.object FROM cutter_governance.fn_grants_held() h
    ), logins(role) AS (
        VALUES ('cutter_exec'), ('cutter_verify'), ('cutter_review'), ('cutter_ro'), ('directus')
    ), nologins(role) AS (
        VALUES ('cutter_owner'), ('cutter_copy')
    ), ours_in_public(object) AS (
        VALUES ('dot_config'), ('cut_request'), ('cut_request_transition'), ('v_cut_requests_by_status'),
            ('v_cut_request_ready_to_mark'), ('v_cut_request_ready_to_cut'), ('v_cut_request_ready_to_verify_cut'),
            ('fn_cut_request_transition'), ('fn_cut_request_signal'), ('fn_cut_request_add'), ('fn_cut_copy_to_staging'),
            ('fn_cut_mark_staged_file'), ('fn_cut_verify_mark'), ('fn_cut_apply'), ('fn_cut_verify_cut'),
            ('fn_cut_complete'), ('fn_cut_cleanup')
    )
    SELECT 'fact', concat_ws(':', coalesce(e.grantee, h.grantee), coalesce(e.privilege, h.privilege),
            coalesce(e.object, h.object)), coalesce(e.wanted, false), h.object IS NOT NULL
    FROM cutter_governance.grant_expectation e
    FULL JOIN held h ON h.grantee = e.grantee AND h.privilege = e.privilege AND h.kind = e.kind
        AND h.object = e.object
    -- A stranger's SELECT or USAGE is the deployment's own affair.
    WHERE e.grantee IS NOT NULL OR h.grantee = 'PUBLIC' OR h.grantee IN (SELECT l.role FROM logins l)
        OR h.privilege NOT IN ('SELECT', 'USAGE')
    UNION ALL
    SELECT 'public_execute', h.object, NULL, NULL FROM held h WHERE h.grantee = 'PUBLIC' AND h.kind = 'FUNCTION'
    UNION ALL
    SELECT 'violation', 'role ' || l.role || ' does not exist', NULL, NULL
    FROM (SELECT l.role FROM logins l UNION ALL SELECT o.role FROM nologins o) l
    WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = l.role)
    UNION ALL
    SELECT 'violation', 'role ' || r.rolname || ' has ' || x.attribute, NULL, NULL
    FROM pg_roles r
    CROSS JOIN LATERAL (VALUES ('SUPERUSER', r.rolsuper), ('CREATEROLE', r.rolcreaterole),
        ('CREATEDB', r.rolcreatedb), ('REPLICATION', r.rolreplication), ('BYPASSRLS', r.rolbypassrls),
        ('LOGIN', r.rolcanlogin AND r.rolname IN (SELECT o.role FROM nologins o))) AS x(attribute, present)
    WHERE x.present AND (r.rolname IN (SELECT o.role FROM nologins o) OR r.rolname IN (SELECT l.role FROM logins l))
    UNION ALL
    SELECT 'violation', 'role ' || m.rolname || ' is a member of ' || g.rolname, NULL, NULL
    FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid
    WHERE m.rolname IN (SELECT l.role FROM logins l)
        OR m.rolname = 'cutter_copy' AND g.rolname <> 'pg_read_server_files'
        OR m.rolname = 'cutter_owner' AND g.rolname = 'cutter_copy'
    UNION ALL
    SELECT 'violation', o.object || ' is owned by ' || pg_get_userbyid(o.owner), NULL, NULL
    FROM (
        SELECT n.nspname || '.' || c.relname AS object, c.relowner AS owner
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
            OR n.nspname = 'public' AND c.relname IN (SELECT u.object FROM ours_in_public u))
        UNION ALL
        SELECT n.nspname || '.' || p.proname, p.proowner
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
            OR n.nspname = 'public' AND p.proname IN (SELECT u.object FROM ours_in_public u)
        UNION ALL
        SELECT n.nspname::text, n.nspowner FROM pg_namespace n
        WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
    ) o
    WHERE pg_get_userbyid(o.owner) <> (CASE o.object WHEN 'cutter_governance.fn_copy_read' THEN 'cutter_copy'
        ELSE 'cutter_owner' END)
    UNION ALL
    SELECT 'violation', n.nspname || '.' || p.proname || ' has no pinned search_path', NULL, NULL
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
            OR n.nspname = 'public' AND pg_get_userbyid(p.proowner) = 'cutter_owner')
        AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(p.proconfig, '{}'))
    UNION ALL
    SELECT 'violation', n.nspname || '.' || c.relname || '.' || t.attname || ' has column privileges', NULL, NULL
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE t.attacl IS NOT NULL AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
        OR n.nspname = 'public' AND pg_get_userbyid(c.relowner) = 'cutter_owner')
$fn$;

RESET ROLE;
