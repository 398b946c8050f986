-- Whose powers reach past the grants. The attributes and memberships of our own logins are the grant probe's.
SELECT 'own', 'role ' || r.rolname || ' is a superuser: expected none but the server''s own and who looks',
    pg_catalog.format('ALTER ROLE %I NOSUPERUSER', r.rolname)
FROM pg_catalog.pg_roles r
WHERE r.rolsuper AND r.oid <> 10 AND r.rolname <> session_user AND r.oid NOT IN (SELECT o.oid FROM ours o)
UNION ALL
-- Each edge towards one of ours or a superuser, from somebody who is neither.
SELECT CASE WHEN g.name IS NULL THEN 'own' ELSE 'bad' END,
    'role ' || m.rolname || ' is a member of ' || r.rolname
        || CASE WHEN g.oid <> r.oid THEN ', and so of ' || g.name WHEN g.name IS NULL THEN ', who is a superuser' ELSE '' END || ': expected no member',
    pg_catalog.format('REVOKE %I FROM %I', r.rolname, m.rolname) || CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 160000
        THEN pg_catalog.format(' GRANTED BY %I', pg_catalog.pg_get_userbyid(a.grantor)) ELSE '' END
FROM pg_catalog.pg_auth_members a
JOIN pg_catalog.pg_roles r ON r.oid = a.roleid
JOIN pg_catalog.pg_roles m ON m.oid = a.member
LEFT JOIN LATERAL (
    SELECT o.oid, o.name FROM ours o WHERE pg_catalog.pg_has_role(r.oid, o.oid, 'MEMBER') AND NOT r.rolsuper
    ORDER BY o.oid <> r.oid, o.name LIMIT 1
) g ON true
WHERE (g.oid IS NOT NULL OR r.rolsuper)
    AND m.oid NOT IN (SELECT o.oid FROM administrators o) AND m.oid NOT IN (SELECT o.oid FROM ours o)
UNION ALL
SELECT 'bad', 'role ' || m.rolname || ' is a member of ' || r.rolname || ': expected no membership',
    pg_catalog.format('REVOKE %I FROM %I', r.rolname, m.rolname)
FROM pg_catalog.pg_auth_members a
JOIN pg_catalog.pg_roles r ON r.oid = a.roleid
JOIN pg_catalog.pg_roles m ON m.oid = a.member
-- The migrations let it name and end the sessions that block it; the other one is the grant probe's.
WHERE m.rolname = 'cutter_owner' AND NOT r.rolname IN ('pg_read_all_stats', 'pg_signal_backend', 'cutter_copy')
UNION ALL
-- What the server's own groups can do to every table or to the files.
SELECT 'own', 'role ' || r.rolname || ' may act as ' || g.rolname || ': expected nobody',
    pg_catalog.format('REVOKE %I FROM %I', g.rolname, r.rolname)
FROM pg_catalog.pg_roles r JOIN pg_catalog.pg_roles g
    ON g.rolname IN ('pg_write_all_data', 'pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files', 'pg_maintain')
WHERE r.oid <> g.oid AND NOT r.rolsuper AND pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER')
    AND r.oid NOT IN (SELECT o.oid FROM administrators o) AND r.oid NOT IN (SELECT o.oid FROM ours o)
UNION ALL
SELECT 'own', 'role ' || r.rolname || ' has CREATEROLE, and before PostgreSQL 16 so the password of every login: expected nobody',
    pg_catalog.format('ALTER ROLE %I NOCREATEROLE', r.rolname)
FROM pg_catalog.pg_roles r
WHERE r.rolcreaterole AND NOT r.rolsuper AND pg_catalog.current_setting('server_version_num')::int < 160000
    AND r.oid NOT IN (SELECT o.oid FROM administrators o) AND r.oid NOT IN (SELECT o.oid FROM ours o)
UNION ALL
SELECT CASE WHEN d.datdba IN (SELECT o.oid FROM ours o) THEN 'bad' ELSE 'own' END,
    'database ' || d.datname || ': owner: expected an administrator, observed ' || pg_catalog.pg_get_userbyid(d.datdba),
    pg_catalog.format('ALTER DATABASE %I OWNER TO %I', d.datname,
        (SELECT pg_catalog.pg_get_userbyid(n.nspowner) FROM pg_catalog.pg_namespace n WHERE n.nspname = 'cutter_meta'))
FROM pg_catalog.pg_database d
WHERE d.datname = pg_catalog.current_database() AND d.datdba NOT IN (SELECT a.oid FROM administrators a)
UNION ALL
SELECT 'home', 'schema cutter_meta: owner: expected the server''s own superuser, observed ' || pg_catalog.pg_get_userbyid(n.nspowner),
    pg_catalog.format('ALTER SCHEMA cutter_meta OWNER TO %I', pg_catalog.pg_get_userbyid(10))
FROM pg_catalog.pg_namespace n WHERE n.nspname = 'cutter_meta' AND n.nspowner <> 10
