-- What others made over, beside or inside our tables.
, views(oid) AS (
    SELECT w.ev_class AS oid FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d ON d.objid = w.oid
        AND d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
    WHERE d.refobjid IN (SELECT r.oid FROM relations r)
    UNION
    SELECT w.ev_class FROM views v JOIN pg_catalog.pg_depend d ON d.refobjid = v.oid
        AND d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
    JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid
), owned AS (
    -- Everything of ours has its kind in the definitions but these.
    SELECT s.classid, s.objid FROM pg_catalog.pg_shdepend s
    WHERE s.refclassid = 'pg_catalog.pg_authid'::regclass AND s.deptype = 'o' AND s.objsubid = 0
        AND s.refobjid IN (SELECT o.oid FROM ours o WHERE o.name <> 'directus')
        AND s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    UNION
    SELECT d.classid, d.objid FROM pg_catalog.pg_depend d
    WHERE d.refclassid = 'pg_catalog.pg_namespace'::regclass AND d.refobjid IN (SELECT s.oid FROM schemas s)
    UNION
    SELECT 'pg_catalog.pg_statistic_ext'::regclass, e.oid FROM pg_catalog.pg_statistic_ext e
    WHERE e.stxrelid IN (SELECT r.oid FROM relations r)
)
-- A view reads, and where it is simple writes, with the rights of its owner.
SELECT CASE WHEN NOT a.privilege_type IN ('SELECT', 'USAGE') OR a.grantee = 0 OR a.grantee IN (SELECT o.oid FROM ours o) THEN 'bad' ELSE 'note' END,
    CASE c.relkind WHEN 'm' THEN 'materialized view ' ELSE 'view ' END || c.oid::regclass || ' of ' || pg_catalog.pg_get_userbyid(c.relowner)
        || ' is over tables of ours: expected no grant, observed ' || a.privilege_type || ' to '
        || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END,
    pg_catalog.format('REVOKE %s ON %s FROM %s', a.privilege_type, c.oid::regclass,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)
FROM pg_catalog.pg_class c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
WHERE c.oid IN (SELECT v.oid FROM views v) AND c.oid NOT IN (SELECT r.oid FROM relations r)
    AND a.grantee <> c.relowner AND NOT a.privilege_type IN ('REFERENCES', 'TRIGGER', 'TRUNCATE')
UNION ALL
SELECT 'bad', i.type || ' ' || i.identity || ' is owned by ours, in a schema or over a table of ours, and none that cutter made',
    pg_catalog.format('DROP %s %s', pg_catalog.upper(CASE i.type WHEN 'statistics object' THEN 'statistics' ELSE replace(i.type, '-', ' ') END), i.identity)
FROM owned s CROSS JOIN LATERAL pg_catalog.pg_identify_object(s.classid, s.objid, 0) i
WHERE CASE
    WHEN s.classid = 'pg_catalog.pg_class'::regclass THEN EXISTS (SELECT FROM pg_catalog.pg_class c
        WHERE c.oid = s.objid AND c.oid NOT IN (SELECT r.oid FROM relations r) AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c'))
    WHEN s.classid = 'pg_catalog.pg_proc'::regclass THEN EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
        WHERE p.oid = s.objid AND n.nspname <> 'public' AND (n.oid NOT IN (SELECT x.oid FROM schemas x) OR n.nspname = 'cutter_queue_day'))
    WHEN s.classid = 'pg_catalog.pg_namespace'::regclass THEN s.objid NOT IN (SELECT x.oid FROM schemas x)
    WHEN s.classid = 'pg_catalog.pg_type'::regclass THEN EXISTS (SELECT FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
        WHERE t.oid = s.objid AND t.typcategory <> 'A' AND coalesce(c.relkind = 'c', true))
    ELSE s.classid <> 'pg_catalog.pg_default_acl'::regclass
        AND s.classid IS DISTINCT FROM pg_catalog.to_regclass('pg_catalog.pg_publication_namespace') END
UNION ALL
-- The days of the queue are partitions of one table, and nothing else.
SELECT 'bad', 'relation ' || c.oid::regclass || ': expected a day of cutter_queue.work_done, as it was made, observed ' || v.observed, v.undo
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.relkind = 'i' THEN 'index ' ELSE '' END || 'one of ' || coalesce(h.inhparent::regclass::text, 'nothing') AS observed,
        pg_catalog.format('DROP %s %s', CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
            WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, c.oid::regclass) AS undo
    WHERE c.relkind = 'i' AND h.inhparent IS NULL OR c.relkind NOT IN ('r', 'i', 't', 'c')
        OR c.relkind = 'r' AND h.inhparent IS DISTINCT FROM pg_catalog.to_regclass('cutter_queue.work_done')
    UNION ALL
    SELECT 'owner ' || pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.format('ALTER TABLE %s OWNER TO cutter_owner', c.oid::regclass)
    WHERE c.relkind = 'r' AND pg_catalog.pg_get_userbyid(c.relowner) <> 'cutter_owner'
        AND h.inhparent = pg_catalog.to_regclass('cutter_queue.work_done')
    UNION ALL
    SELECT 'row security', pg_catalog.format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', c.oid::regclass) WHERE c.relrowsecurity
    UNION ALL
    SELECT 'trigger ' || t.tgname, pg_catalog.format('DROP TRIGGER %I ON %s', t.tgname, c.oid::regclass)
    FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND t.tgparentid = 0
    UNION ALL
    SELECT 'rule ' || w.rulename, pg_catalog.format('DROP RULE %I ON %s', w.rulename, c.oid::regclass)
    FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid AND c.relkind = 'r'
    UNION ALL
    SELECT a.privilege_type || ' for ' || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END,
        pg_catalog.format('REVOKE %s ON %s FROM %s', a.privilege_type, c.oid::regclass, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)
    FROM pg_catalog.aclexplode(c.relacl) a
    WHERE c.relkind = 'r' AND a.grantee <> c.relowner AND (a.privilege_type <> 'SELECT' OR a.grantee = 0
        OR a.grantee IN (SELECT o.oid FROM ours o WHERE o.name <> 'cutter_ro'))
) v
WHERE c.relnamespace = pg_catalog.to_regnamespace('cutter_queue_day')
UNION ALL
-- Changes that go elsewhere, or come from elsewhere.
SELECT 'own', 'publication ' || p.pubname || ' of ' || pg_catalog.pg_get_userbyid(p.pubowner) || ' sends changes of '
        || CASE WHEN p.puballtables THEN 'all tables' ELSE 'tables of ours' END || ': expected none',
    pg_catalog.format('DROP PUBLICATION %I', p.pubname)
FROM pg_catalog.pg_publication p
WHERE p.puballtables OR EXISTS (SELECT FROM pg_catalog.pg_publication_rel x WHERE x.prpubid = p.oid AND x.prrelid IN (SELECT r.oid FROM relations r))
    OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_depend e ON e.classid = d.classid AND e.objid = d.objid
        WHERE d.refclassid = 'pg_catalog.pg_publication'::regclass AND d.refobjid = p.oid
            AND e.refclassid = 'pg_catalog.pg_namespace'::regclass AND e.refobjid IN (SELECT s.oid FROM schemas s))
UNION ALL
SELECT 'bad', 'subscription ' || s.subname || ' of ' || pg_catalog.pg_get_userbyid(s.subowner) || ' writes ' || pg_catalog.string_agg(r.name, ', ' ORDER BY r.name)
        || ': expected none', pg_catalog.format('DROP SUBSCRIPTION %I', s.subname)
FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_subscription_rel x ON x.srsubid = s.oid JOIN relations r ON r.oid = x.srrelid
GROUP BY s.subname, s.subowner
