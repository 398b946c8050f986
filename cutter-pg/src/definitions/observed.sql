-- What is defined in our schemas, as rows (kind, object, aspect, value): from the server's own catalogue
-- alone, as the functions of the database under check may be what is damaged. Printed the same by every
-- supported version: texts that the server deparses lose spaces, and those of views what qualifies columns.
WITH ours AS (
    SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n
    WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'cutter_meta')
), roles AS (
    -- The administrator's name is the deployment's own affair; that it is none of the logins is not.
    SELECT r.oid, CASE WHEN r.rolname ~ '^cutter_(owner|copy|exec|verify|review|ro)$' OR r.rolname = 'directus'
        THEN r.rolname::text ELSE 'administrator' END AS name
    FROM pg_catalog.pg_roles r
), classes AS (
    SELECT n.nspname || '.' || c.relname AS name, c.*
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND (n.oid IN (SELECT o.oid FROM ours o)
        OR n.nspname = 'public' AND (pg_catalog.pg_get_userbyid(c.relowner) = 'cutter_owner'
            OR c.relname ~ '^(dot_config$|v?_?cut_request)'))
), functions AS (
    SELECT n.nspname || '.' || p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' AS name, p.*
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.oid IN (SELECT o.oid FROM ours o)
        OR n.nspname = 'public' AND (pg_catalog.pg_get_userbyid(p.proowner) = 'cutter_owner' OR p.proname ~ '^fn_cut_')
), acls(kind, name, owner, acl) AS (
    SELECT 'relation', c.name, c.relowner, coalesce(c.relacl,
        pg_catalog.acldefault(CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner)) FROM classes c
    UNION ALL
    SELECT 'function', f.name, f.proowner, coalesce(f.proacl, pg_catalog.acldefault('f', f.proowner)) FROM functions f
    UNION ALL
    SELECT 'column', c.name || '.' || a.attname, c.relowner, a.attacl
    FROM classes c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid WHERE a.attacl IS NOT NULL
    UNION ALL
    SELECT 'schema', n.nspname, n.nspowner, coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))
    FROM pg_catalog.pg_namespace n WHERE n.oid IN (SELECT o.oid FROM ours o) OR n.nspname IN ('public', 'cutter_queue_day')
    UNION ALL
    SELECT 'default privileges', d.defaclobjtype::text, d.defaclrole, d.defaclacl
    FROM pg_catalog.pg_default_acl d WHERE pg_catalog.pg_get_userbyid(d.defaclrole) = 'cutter_owner'
), found(kind, object, aspect, value) AS (
    SELECT 'schema', n.nspname::text, 'owner', r.name
    FROM pg_catalog.pg_namespace n JOIN roles r ON r.oid = n.nspowner
    WHERE n.oid IN (SELECT o.oid FROM ours o) OR n.nspname = 'cutter_queue_day'
    UNION ALL
    -- The server's own, whose grants count.
    SELECT 'schema', 'public', 'kind', 'public'
    UNION ALL
    SELECT 'default privileges', d.defaclobjtype::text, 'in', coalesce(n.nspname::text, 'all schemas')
    FROM pg_catalog.pg_default_acl d LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
    WHERE pg_catalog.pg_get_userbyid(d.defaclrole) = 'cutter_owner'
    UNION ALL
    -- One row per privilege. What strangers may read is the deployment's own affair.
    SELECT a.kind, a.name, 'grant ' || x.privilege_type || ' to ' || coalesce(r.name, 'PUBLIC'),
        CASE WHEN x.is_grantable THEN 'with grant option' ELSE 'yes' END
    FROM acls a CROSS JOIN LATERAL pg_catalog.aclexplode(a.acl) x LEFT JOIN roles r ON r.oid = x.grantee
    WHERE x.grantee <> a.owner
        AND (r.name IS DISTINCT FROM 'administrator' OR NOT x.privilege_type IN ('SELECT', 'USAGE'))
        AND NOT (a.kind = 'schema' AND a.name = 'public' AND (x.privilege_type = 'USAGE' OR coalesce(r.name = 'administrator', false)))
    UNION ALL
    SELECT 'function', f.name, v.aspect, v.value
    FROM functions f JOIN pg_catalog.pg_language l ON l.oid = f.prolang JOIN roles r ON r.oid = f.proowner
    CROSS JOIN LATERAL (VALUES ('body', f.prosrc), ('parsed body', pg_catalog.pg_get_function_sqlbody(f.oid)), ('owner', r.name), ('security definer', f.prosecdef::text),
        ('settings', pg_catalog.array_to_string(f.proconfig, ';')), ('language', l.lanname::text),
        ('volatility', f.provolatile::text), ('strict', nullif(f.proisstrict::text, 'false')), ('leakproof', nullif(f.proleakproof::text, 'false')),
        ('kind', nullif(f.prokind::text, 'f')), ('parallel', nullif(f.proparallel::text, 'u')),
        ('support', nullif(f.prosupport::text, '-')), ('result', pg_catalog.pg_get_function_result(f.oid)),
        ('arguments', pg_catalog.pg_get_function_arguments(f.oid))) AS v(aspect, value)
    UNION ALL
    SELECT 'relation', c.name, v.aspect, v.value
    FROM classes c JOIN roles r ON r.oid = c.relowner
    CROSS JOIN LATERAL (VALUES ('kind', c.relkind::text), ('owner', r.name), ('persistence', nullif(c.relpersistence::text, 'p')),
        ('row security', nullif(c.relrowsecurity::text || ' ' || c.relforcerowsecurity, 'false false')),
        ('definition', CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.regexp_replace(
            pg_catalog.pg_get_viewdef(c.oid), '\m\w+\.|\s', '', 'g') END),
        -- What the catalogue lists and the server is told not to look for.
        ('switched off', nullif(concat_ws(' ',
            CASE WHEN NOT c.relhastriggers AND EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid) THEN 'triggers' END,
            CASE WHEN NOT c.relhasindex AND EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid) THEN 'indexes' END,
            CASE WHEN NOT c.relhasrules AND EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid) THEN 'rules' END,
            CASE WHEN c.relchecks <> (SELECT count(*) FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c') THEN 'checks' END), '')),
        ('options', CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.array_to_string(c.reloptions, ' ') END),
        ('access method', (SELECT nullif(m.amname, 'heap') FROM pg_catalog.pg_am m WHERE m.oid = c.relam)),
        ('counts', (SELECT concat_ws(' ', 'by', q.seqincrement, 'from', q.seqmin, 'to', q.seqmax, CASE WHEN q.seqcycle THEN 'and again' END)
            FROM pg_catalog.pg_sequence q WHERE q.seqrelid = c.oid)),
        ('reads', (SELECT pg_catalog.string_agg(DISTINCT d.refobjid::regclass::text, ' ' ORDER BY d.refobjid::regclass::text)
            FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d ON d.objid = w.oid
                AND d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
                AND d.refobjid <> c.oid
            WHERE w.ev_class = c.oid)),
        -- What is not the server's own: the text above leaves out whose function it is.
        ('calls', (SELECT pg_catalog.string_agg(DISTINCT i.identity, ' ' ORDER BY i.identity)
            FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d ON d.objid = w.oid
                AND d.classid = 'pg_catalog.pg_rewrite'::regclass
                AND d.refclassid <> 'pg_catalog.pg_class'::regclass
            CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.refclassid, d.refobjid, 0) i
            WHERE w.ev_class = c.oid)),
        ('children', (SELECT pg_catalog.string_agg(i.inhrelid::regclass::text, ' ' ORDER BY i.inhrelid::regclass::text)
            FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class k ON k.oid = i.inhrelid
            JOIN pg_catalog.pg_namespace n ON n.oid = k.relnamespace
            WHERE i.inhparent = c.oid AND NOT (n.nspname = 'cutter_queue_day' AND c.name = 'cutter_queue.work_done')))) AS v(aspect, value)
    UNION ALL
    SELECT 'column', c.name || '.' || a.attname, v.aspect, v.value
    FROM classes c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation
    CROSS JOIN LATERAL (VALUES ('type', pg_catalog.format_type(a.atttypid, a.atttypmod)),
        ('not null', nullif(a.attnotnull::text, 'false')), ('collation', nullif(CASE WHEN o.collnamespace = 'pg_catalog'::regnamespace THEN o.collname::text ELSE o.oid::regcollation::text END, 'default')),
        ('switched off', CASE WHEN d.oid IS NOT NULL AND NOT a.atthasdef THEN 'default' END), ('identity', nullif(a.attidentity::text, '')),
        ('generated', nullif(a.attgenerated::text, '')),
        ('default', pg_catalog.regexp_replace(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '\s', '', 'g')))
        AS v(aspect, value)
    WHERE c.relkind <> 'S'
    UNION ALL
    SELECT 'index', n.nspname || '.' || k.relname, v.aspect, v.value
    FROM classes c JOIN pg_catalog.pg_index i ON i.indrelid = c.oid JOIN pg_catalog.pg_class k ON k.oid = i.indexrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = k.relnamespace
    CROSS JOIN LATERAL (VALUES ('valid', nullif((i.indisvalid AND i.indisready AND i.indislive AND i.indimmediate)::text, 'true')),
        ('definition', pg_catalog.regexp_replace(pg_catalog.pg_get_indexdef(k.oid), '\s', '', 'g')))
        AS v(aspect, value)
    UNION ALL
    SELECT 'constraint', c.name || '.' || k.conname, v.aspect, v.value
    FROM classes c JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid
    CROSS JOIN LATERAL (VALUES ('validated', nullif(k.convalidated::text, 'true')),
        ('deferrable', nullif(k.condeferrable::text || ' ' || k.condeferred, 'false false')),
        ('definition', pg_catalog.regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), '\s', '', 'g')))
        AS v(aspect, value)
    -- NOT NULL is a column's; a trigger's is below
    WHERE NOT k.contype IN ('n', 't')
    UNION ALL
    SELECT 'trigger', c.name || '.' || t.tgname, v.aspect, v.value
    FROM classes c JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid
    CROSS JOIN LATERAL (VALUES ('enabled', t.tgenabled::text),
        ('deferrable', nullif(t.tgdeferrable::text || ' ' || t.tginitdeferred, 'false false')),
        ('function', (SELECT n.nspname || '.' || p.proname FROM pg_catalog.pg_proc p
            JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = t.tgfoid)),
        ('definition', pg_catalog.regexp_replace(pg_catalog.pg_get_triggerdef(t.oid), '\s', '', 'g')))
        AS v(aspect, value)
    WHERE NOT t.tgisinternal
    UNION ALL
    -- The triggers behind constraints: DISABLE TRIGGER ALL turns foreign keys off.
    SELECT 'constraint', k.conrelid::regclass || '.' || k.conname, 'triggers on ' || c.name,
        pg_catalog.string_agg(t.tgtype || ' ' || t.tgenabled::text || ' ' || t.tgfoid::regproc, ', ' ORDER BY t.tgtype, t.tgenabled, t.tgfoid::regproc::text)
    FROM classes c JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid
    JOIN pg_catalog.pg_constraint k ON k.oid = t.tgconstraint
    JOIN pg_catalog.pg_class b ON b.oid = k.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = b.relnamespace AND n.nspname <> 'cutter_queue_day'
    WHERE t.tgisinternal AND k.contype = 'f'
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT 'rule', c.name || '.' || w.rulename, 'enabled', w.ev_enabled::text
    FROM classes c JOIN pg_catalog.pg_rewrite w ON w.ev_class = c.oid WHERE w.rulename <> '_RETURN'
    UNION ALL
    SELECT 'policy', c.name || '.' || p.polname, 'command', p.polcmd::text
    FROM classes c JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid
)
-- A long value is as good as (half) its digest; what is as usual is not said.
SELECT f.kind, f.object, f.aspect, CASE WHEN length(f.value) > 64 OR f.value ~ '[[:cntrl:]]'
    THEN 'sha256 ' || pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(f.value, 'UTF8')), 'hex'), 32) ELSE f.value END
FROM found f WHERE f.value IS NOT NULL
ORDER BY f.kind COLLATE "C", f.object COLLATE "C", f.aspect COLLATE "C"
