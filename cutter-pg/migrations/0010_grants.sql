-- Who may do what. grant_expectation is the one list: the grants are made from it, and the
-- grant probe (IG_grant_probe) compares the server with it. A later migration adds its rows.
GRANT USAGE ON SCHEMA cutter_meta TO cutter_owner;

-- Grants what the list says of the objects whose names match. For migrations:
-- only the owner may grant, and nobody else may call it.
CREATE FUNCTION cutter_meta.fn_grant_expected(p_objects text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT e.* FROM cutter_governance.grant_expectation e
             WHERE e.wanted AND e.grantee <> 'cutter_owner' AND e.object ~ p_objects
    LOOP
        EXECUTE format('GRANT %s ON %s %s TO %I', r.privilege, r.kind, r.object, r.grantee);
    END LOOP;
END
$fn$;
REVOKE ALL ON FUNCTION cutter_meta.fn_grant_expected(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cutter_meta.fn_grant_expected(text) TO cutter_owner;

SET ROLE cutter_owner;

CREATE TABLE cutter_governance.grant_expectation (
    grantee   text COLLATE "C" NOT NULL,
    privilege text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL CHECK (kind IN ('SCHEMA', 'TABLE', 'FUNCTION', 'DATABASE')),
    object    text COLLATE "C" NOT NULL,
    wanted    boolean NOT NULL DEFAULT true,
    PRIMARY KEY (grantee, privilege, kind, object)
);
COMMENT ON TABLE cutter_governance.grant_expectation IS
    'Every privilege that a login shall hold. wanted = false: one that it must not, shown by name in the probe.';

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'USAGE', 'SCHEMA', s.object
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee),
    unnest(ARRAY['iu_core', 'cutter_governance']) AS s(object);

-- What everybody who observes may read.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', n.nspname || '.' || c.relname
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee),
    pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v') AND (n.nspname IN ('iu_core', 'cutter_governance')
    OR n.nspname = 'public' AND c.relname = 'dot_config');

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT v.grantee, v.privilege, v.kind, o.object
FROM (VALUES
    ('cutter_review', 'SELECT', 'TABLE', 'cutter_governance.review_decision cutter_governance.review_approval
        cutter_governance.approval_use cutter_governance.run_effect cutter_governance.decision_backlog_entry'),
    ('cutter_review', 'INSERT', 'TABLE', 'cutter_governance.review_approval'),
    ('cutter_verify', 'INSERT', 'TABLE', 'cutter_governance.verify_result'),
    ('directus', 'SELECT', 'TABLE', 'cutter_governance.review_decision cutter_governance.decision_backlog_entry
        cutter_governance.decision_backlog_history iu_core.source_document iu_core.source_version
        iu_core.information_unit iu_core.unit_version iu_core.v_current_unit public.dot_config'),
    ('cutter_exec', 'EXECUTE', 'FUNCTION', 'iu_core.fn_source_register iu_core.fn_iu_create
        iu_core.fn_iu_apply_edit_draft iu_core.fn_iu_enact cutter_governance.fn_run_fence_take
        cutter_governance.fn_approval_use cutter_governance.fn_backlog_mark cutter_governance.fn_backlog_sweep
        cutter_governance.fn_change_set_open cutter_governance.fn_envelope_record
        cutter_governance.fn_change_set_void'),
    ('cutter_verify', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_verify_escalate')
) AS v(grantee, privilege, kind, objects)
CROSS JOIN LATERAL regexp_split_to_table(v.objects, '\s+') AS o(object);

-- Functions of every writing transaction, and those of every observer.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', f.object
FROM (VALUES ('cutter_exec', true, true), ('cutter_verify', true, true), ('cutter_review', true, false),
        ('cutter_ro', false, false)) AS g(grantee, writes, signs),
    (VALUES
        ('iu_core.fn_document_lock', true, false),
        ('cutter_governance.fn_run_fence_assert', true, false),
        ('cutter_governance.fn_run_effect_record', true, false),
        ('cutter_governance.fn_backlog_transition', true, false),
        ('cutter_governance.fn_signature_record', true, true),
        ('cutter_governance.fn_survey', false, false),
        ('cutter_governance.fn_base_state', false, false),
        ('cutter_governance.fn_base_state_tables', false, false),
        ('cutter_governance.fn_backlog_targets', false, false),
        ('cutter_governance.fn_catalogue', false, false),
        ('cutter_governance.fn_catalogue_stamp', false, false),
        ('cutter_governance.fn_grant_probe', false, false),
        ('cutter_governance.fn_grant_digest', false, false)
    ) AS f(object, writes, signs)
WHERE (g.writes OR NOT f.writes) AND (g.signs OR NOT f.signs);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_review_decision_record'
FROM unnest(ARRAY['cutter_exec', 'cutter_review']) AS g(grantee);

-- The ones that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
VALUES
    ('PUBLIC', 'TEMPORARY', 'DATABASE', '(this)', false),
    ('PUBLIC', 'CREATE', 'SCHEMA', 'public', false),
    ('cutter_exec', 'INSERT', 'TABLE', 'cutter_governance.review_approval', false),
    ('cutter_exec', 'INSERT', 'TABLE', 'cutter_governance.verify_result', false),
    ('cutter_exec', 'INSERT', 'TABLE', 'iu_core.information_unit', false),
    ('cutter_exec', 'UPDATE', 'TABLE', 'iu_core.information_unit', false),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'iu_core.fn_iu_create', false),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'iu_core.fn_iu_enact', false),
    ('cutter_verify', 'EXECUTE', 'FUNCTION', 'iu_core.fn_iu_create', false),
    ('cutter_verify', 'EXECUTE', 'FUNCTION', 'iu_core.fn_iu_enact', false);

-- What the server has: every privilege of the run logins, of PUBLIC, and of strangers, on the
-- objects of our schemas and on what cutter_owner owns in public.
CREATE FUNCTION cutter_governance.fn_grants_held()
RETURNS TABLE (grantee text, privilege text, kind text, object text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END,
        a.privilege_type, o.kind, o.object
    FROM (
        SELECT 'TABLE' AS kind, n.nspname || '.' || c.relname AS object, c.relowner AS owner,
            coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
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

-- The grant probe. section is fact, public_execute or violation.
CREATE FUNCTION cutter_governance.fn_grant_probe()
RETURNS TABLE (section text, name text, wanted boolean, holds boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    WITH held AS MATERIALIZED (
        SELECT DISTINCT h.grantee, h.privilege, h.kind, h.object FROM cutter_governance.fn_grants_held() h
    ), logins(role) AS (
        VALUES ('cutter_exec'), ('cutter_verify'), ('cutter_review'), ('cutter_ro'), ('directus')
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
    FROM (SELECT l.role FROM logins l UNION ALL SELECT 'cutter_owner') l
    WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = l.role)
    UNION ALL
    SELECT 'violation', 'role ' || r.rolname || ' has ' || x.attribute, NULL, NULL
    FROM pg_roles r
    CROSS JOIN LATERAL (VALUES ('SUPERUSER', r.rolsuper), ('CREATEROLE', r.rolcreaterole),
        ('CREATEDB', r.rolcreatedb), ('REPLICATION', r.rolreplication), ('BYPASSRLS', r.rolbypassrls),
        ('LOGIN', r.rolcanlogin AND r.rolname = 'cutter_owner')) AS x(attribute, present)
    WHERE x.present AND (r.rolname = 'cutter_owner' OR r.rolname IN (SELECT l.role FROM logins l))
    UNION ALL
    SELECT 'violation', 'role ' || m.rolname || ' is a member of ' || g.rolname, NULL, NULL
    FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid
    WHERE m.rolname IN (SELECT l.role FROM logins l)
    UNION ALL
    SELECT 'violation', o.object || ' is owned by ' || pg_get_userbyid(o.owner), NULL, NULL
    FROM (
        SELECT n.nspname || '.' || c.relname AS object, c.relowner AS owner
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue') AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
            OR n.nspname = 'public' AND c.relname = 'dot_config'
        UNION ALL
        SELECT n.nspname || '.' || p.proname, p.proowner
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
        UNION ALL
        SELECT n.nspname::text, n.nspowner FROM pg_namespace n
        WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
    ) o
    WHERE pg_get_userbyid(o.owner) <> 'cutter_owner'
    UNION ALL
    SELECT 'violation', n.nspname || '.' || p.proname || ' has no pinned search_path', NULL, NULL
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
        AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(p.proconfig, '{}'))
    UNION ALL
    SELECT 'violation', n.nspname || '.' || c.relname || '.' || t.attname || ' has column privileges', NULL, NULL
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE t.attacl IS NOT NULL AND n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue')
$fn$;

-- Digest of the grant probe: what is pinned. sha256 over the JSON of the core's GrantSnapshot,
-- so that whoever holds the probe's answer can compute it.
CREATE FUNCTION cutter_governance.fn_grant_digest() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT cutter_governance.fn_sha256_text('{"facts":['
        || coalesce(string_agg('{"name":' || to_json(p.name)::text || ',"wanted":' || p.wanted
            || ',"holds":' || p.holds || '}', ',' ORDER BY p.name COLLATE "C") FILTER (WHERE p.section = 'fact'), '')
        || '],"public_execute":['
        || coalesce(string_agg(to_json(p.name)::text, ',' ORDER BY p.name COLLATE "C")
            FILTER (WHERE p.section = 'public_execute'), '')
        || '],"violations":['
        || coalesce(string_agg(to_json(p.name)::text, ',' ORDER BY p.name COLLATE "C")
            FILTER (WHERE p.section = 'violation'), '')
        || ']}')
    FROM cutter_governance.fn_grant_probe() p
$fn$;

SELECT cutter_meta.fn_grant_expected('.');

RESET ROLE;

-- The survey reads the record of migrations.
GRANT SELECT ON cutter_meta.migration TO cutter_owner;
