-- Rights that are handed out elsewhere than on our own tables and functions: those on the server's own are compared
-- with what it was made with.
, initial AS (
    SELECT i.objoid, i.classoid, i.objsubid, a.grantee, a.privilege_type
    FROM pg_catalog.pg_init_privs i CROSS JOIN LATERAL pg_catalog.aclexplode(i.initprivs) a
), held AS (
    SELECT 'pg_catalog.pg_proc'::regclass::oid AS classoid, p.oid AS objoid, 0 AS objsubid, p.oid::regprocedure::text AS name, 'FUNCTION' AS kind, '' AS part, p.proacl AS acl
    FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.oid < 16384 AND EXISTS (SELECT FROM initial i WHERE i.objoid = p.oid AND i.classoid = 'pg_catalog.pg_proc'::regclass)
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, c.oid, 0, c.oid::regclass::text, 'TABLE', '', c.relacl
    FROM pg_catalog.pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.oid < 16384
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, c.oid, a.attnum, c.oid::regclass || '.' || a.attname, 'TABLE', pg_catalog.format(' (%I)', a.attname), a.attacl
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.oid < 16384 AND a.attacl IS NOT NULL
    UNION ALL
    SELECT 'pg_catalog.pg_namespace'::regclass, n.oid, 0, quote_ident(n.nspname), 'SCHEMA', '', n.nspacl
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pg_catalog'
)
SELECT 'bad', pg_catalog.lower(h.kind) || ' ' || h.name || ' of the server: expected no ' || a.privilege_type || ' for '
        || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END || ', observed a grant',
    pg_catalog.format('REVOKE %s%s ON %s %s FROM %s', a.privilege_type, h.part, h.kind,
        CASE WHEN h.kind = 'TABLE' THEN h.objoid::regclass::text ELSE h.name END,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)
FROM held h CROSS JOIN LATERAL pg_catalog.aclexplode(h.acl) a
WHERE (a.grantee = 0 OR a.grantee IN (SELECT o.oid FROM ours o))
    AND NOT EXISTS (SELECT FROM initial i WHERE i.objoid = h.objoid AND i.classoid = h.classoid AND i.objsubid = h.objsubid
        AND i.grantee = a.grantee AND i.privilege_type = a.privilege_type)
    -- What the migrations give it, to read a file of the server by.
    AND NOT (h.name = 'pg_read_binary_file(text,bigint,bigint)' AND pg_catalog.pg_get_userbyid(a.grantee) = 'cutter_copy')
UNION ALL
-- What others' objects hand out from the start: in our schemas to anybody, and what administrators make.
SELECT 'bad', 'default privileges of ' || pg_catalog.pg_get_userbyid(d.defaclrole) || ' for objects of kind ' || d.defaclobjtype::text
        || coalesce(' in schema ' || n.nspname, '') || ': expected no ' || a.privilege_type || ' for '
        || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END || ', observed a grant',
    pg_catalog.format('ALTER DEFAULT PRIVILEGES FOR ROLE %I%s REVOKE %s ON %s FROM %s', pg_catalog.pg_get_userbyid(d.defaclrole),
        CASE WHEN n.oid IS NULL THEN '' ELSE ' IN SCHEMA ' || quote_ident(n.nspname) END, a.privilege_type,
        CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' ELSE 'SCHEMAS' END,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)
FROM pg_catalog.pg_default_acl d LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) a
WHERE a.grantee <> d.defaclrole AND pg_catalog.pg_get_userbyid(d.defaclrole) <> 'cutter_owner'
    AND (d.defaclnamespace IN (SELECT s.oid FROM schemas s)
        OR d.defaclrole IN (SELECT o.oid FROM administrators o) AND (a.grantee = 0 OR a.grantee IN (SELECT o.oid FROM ours o))
            AND NOT a.privilege_type IN ('SELECT', 'USAGE') AND NOT (a.grantee = 0 AND d.defaclobjtype = 'f' AND d.defaclnamespace = 0))
