-- Who may set what only a superuser sets (PostgreSQL 15 and later).
SELECT CASE WHEN a.grantee = 0 OR a.grantee IN (SELECT o.oid FROM ours o) THEN 'bad' ELSE 'own' END,
    'parameter ' || p.parname || ': expected no grant, observed ' || a.privilege_type || ' to '
        || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END,
    pg_catalog.format('REVOKE %s ON PARAMETER %I FROM %s', a.privilege_type, p.parname,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)
FROM pg_catalog.pg_parameter_acl p CROSS JOIN LATERAL pg_catalog.aclexplode(p.paracl) a
WHERE a.grantee <> 10
