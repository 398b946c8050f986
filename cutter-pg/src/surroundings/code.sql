-- Code of others that sessions or functions of ours would run.
, routines AS (
    SELECT p.oid, p.proname, n.nspname, p.prosecdef, p.proowner, pg_catalog.format('%I.%I(%s)', n.nspname, p.proname,
        pg_catalog.pg_get_function_identity_arguments(p.oid)) AS name, x.extension
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    LEFT JOIN members_of_extensions x ON x.classid = 'pg_catalog.pg_proc'::regclass AND x.objid = p.oid
    WHERE p.oid >= 16384 AND n.oid NOT IN (SELECT s.oid FROM schemas s) AND NOT (n.nspname = 'public'
        AND pg_catalog.pg_get_userbyid(p.proowner) IN ('cutter_owner', 'cutter_copy'))
)
-- Runs with the rights of its owner, who is past our walls.
SELECT CASE WHEN f.extension IS NULL THEN 'bad' ELSE 'own' END,
    'function ' || f.name || ' is SECURITY DEFINER of ' || pg_catalog.pg_get_userbyid(f.proowner) || coalesce(' (extension ' || f.extension || ')', '')
        || ': expected that none of our logins may execute it, observed '
        || (SELECT pg_catalog.string_agg(o.name, ', ' ORDER BY o.name) FROM ours o WHERE o.is_login
            AND pg_catalog.has_function_privilege(o.oid, f.oid, 'EXECUTE') AND pg_catalog.has_schema_privilege(o.oid, f.nspname, 'USAGE')),
    pg_catalog.format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', f.name)
        || (SELECT coalesce(pg_catalog.string_agg(', ' || quote_ident(o.name), '' ORDER BY o.name), '') FROM ours o WHERE o.is_login)
FROM routines f
WHERE f.prosecdef AND f.proowner IN (SELECT m.oid FROM mighty m) AND EXISTS (SELECT FROM ours o WHERE o.is_login
    AND pg_catalog.has_function_privilege(o.oid, f.oid, 'EXECUTE') AND pg_catalog.has_schema_privilege(o.oid, f.nspname, 'USAGE'))
UNION ALL
-- What is found before everything else: every path begins with pg_catalog.
SELECT CASE WHEN x.extension IS NULL THEN 'bad' ELSE 'own' END,
    CASE WHEN i.identity LIKE i.type || ' %' OR s.is_part THEN '' ELSE i.type || ' ' END || i.identity || coalesce(' (extension ' || x.extension || ')', '') || ' is none that the server brings along',
    CASE WHEN NOT s.is_part THEN pg_catalog.format('DROP %s %s', pg_catalog.upper(i.type), i.identity) END
FROM (
    SELECT 'pg_catalog.pg_proc'::regclass AS classid, p.oid AS objid, false AS is_part FROM pg_catalog.pg_proc p
        WHERE p.oid >= 16384 AND p.pronamespace = 'pg_catalog'::regnamespace
    UNION ALL
    SELECT 'pg_catalog.pg_operator'::regclass, o.oid, false FROM pg_catalog.pg_operator o
        WHERE o.oid >= 16384 AND o.oprnamespace = 'pg_catalog'::regnamespace
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, c.oid, false FROM pg_catalog.pg_class c
        WHERE c.oid >= 16384 AND c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT 'pg_catalog.pg_type'::regclass, t.oid, false FROM pg_catalog.pg_type t
        WHERE t.oid >= 16384 AND t.typnamespace = 'pg_catalog'::regnamespace AND t.typrelid = 0 AND t.typcategory <> 'A'
    UNION ALL
    -- between the server's own types, or for all of them
    SELECT 'pg_catalog.pg_cast'::regclass, c.oid, false FROM pg_catalog.pg_cast c
        WHERE c.oid >= 16384 AND c.castsource < 16384 AND c.casttarget < 16384
    UNION ALL
    SELECT 'pg_catalog.pg_conversion'::regclass, c.oid, false FROM pg_catalog.pg_conversion c WHERE c.oid >= 16384 AND c.condefault
    UNION ALL
    SELECT 'pg_catalog.pg_amop'::regclass, a.oid, true FROM pg_catalog.pg_amop a WHERE a.oid >= 16384 AND a.amopfamily < 16384
    UNION ALL
    SELECT 'pg_catalog.pg_amproc'::regclass, a.oid, true FROM pg_catalog.pg_amproc a WHERE a.oid >= 16384 AND a.amprocfamily < 16384
) s
CROSS JOIN LATERAL pg_catalog.pg_identify_object(s.classid, s.objid, 0) i
LEFT JOIN members_of_extensions x ON x.classid = s.classid AND x.objid = s.objid
UNION ALL
-- The server's own, changed since the server was made: the databases that it was made with are as old as they are.
SELECT 'own', i.type || ' ' || i.identity || ': expected as the server was made with, observed a change since', NULL
FROM (SELECT max(pg_catalog.age(d.xmin)) AS age FROM pg_catalog.pg_database d WHERE d.oid < 16384) made
CROSS JOIN (
    SELECT p.tableoid AS classid, p.oid AS objid, p.xmin AS changed FROM pg_catalog.pg_proc p
        -- The migrations grant one of them.
        WHERE p.oid < 16384 AND NOT (p.proname = 'pg_read_binary_file' AND p.prosrc LIKE 'pg_read_binary_file%')
    UNION ALL SELECT o.tableoid, o.oid, o.xmin FROM pg_catalog.pg_operator o WHERE o.oid < 16384
    UNION ALL SELECT c.tableoid, c.oid, c.xmin FROM pg_catalog.pg_cast c WHERE c.oid < 16384
    UNION ALL SELECT t.tableoid, t.oid, t.xmin FROM pg_catalog.pg_type t WHERE t.oid < 16384
    UNION ALL SELECT w.tableoid, w.oid, w.xmin FROM pg_catalog.pg_rewrite w WHERE w.oid < 16384
    UNION ALL SELECT l.tableoid, l.oid, l.xmin FROM pg_catalog.pg_language l WHERE l.oid < 16384
    UNION ALL SELECT a.tableoid, a.oid, a.xmin FROM pg_catalog.pg_amop a WHERE a.oid < 16384
    UNION ALL SELECT a.tableoid, a.oid, a.xmin FROM pg_catalog.pg_amproc a WHERE a.oid < 16384
    UNION ALL SELECT c.tableoid, c.oid, c.xmin FROM pg_catalog.pg_conversion c WHERE c.oid < 16384
    UNION ALL SELECT o.tableoid, o.oid, o.xmin FROM pg_catalog.pg_opclass o WHERE o.oid < 16384
    UNION ALL SELECT a.tableoid, a.oid, a.xmin FROM pg_catalog.pg_am a WHERE a.oid < 16384
    UNION ALL SELECT 'pg_catalog.pg_proc'::regclass, a.aggfnoid, a.xmin FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid < 16384
) s
CROSS JOIN LATERAL pg_catalog.pg_identify_object(s.classid, s.objid, 0) i
WHERE s.changed::text::bigint > 2 AND pg_catalog.age(s.changed) < made.age
UNION ALL
SELECT 'own', 'databases of the server: expected one that it was made with, observed none: a change to its own functions cannot be told', NULL
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_database d WHERE d.oid < 16384)
UNION ALL
SELECT 'bad', 'function ' || p.oid::regprocedure || ' of the server: expected ' || v.expected || ', observed ' || v.observed, NULL
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
CROSS JOIN LATERAL (VALUES
    (p.prosecdef, 'the rights of who calls it', 'SECURITY DEFINER'),
    (p.proconfig IS NOT NULL, 'no settings of its own', pg_catalog.array_to_string(p.proconfig, '; ')),
    (NOT l.lanname IN ('internal', 'c', 'sql'), 'language internal, c or sql', 'language ' || l.lanname),
    (l.lanname = 'c' AND NOT p.probin LIKE '$libdir/%', 'a library of the server', coalesce(p.probin, 'none'))
) AS v(is_so, expected, observed)
WHERE p.oid < 16384 AND v.is_so
UNION ALL
SELECT 'bad', 'language ' || l.lanname || ': expected untrusted, observed trusted',
    pg_catalog.format('UPDATE pg_catalog.pg_language SET lanpltrusted = false WHERE lanname = %L', l.lanname)
FROM pg_catalog.pg_language l
WHERE l.lanpltrusted AND l.lanname ~ '^(internal|c|.*u)$'
UNION ALL
SELECT 'bad', 'language ' || l.lanname || ': expected a handler that the server brings along, observed '
        || (SELECT pg_catalog.string_agg(h.oid::regprocedure::text, ', ') FROM pg_catalog.pg_proc h
            WHERE h.oid >= 16384 AND h.oid IN (l.lanplcallfoid, l.laninline, l.lanvalidator)), NULL
FROM pg_catalog.pg_language l
WHERE l.lanname IN ('internal', 'c', 'sql', 'plpgsql') AND (l.lanplcallfoid >= 16384 OR l.laninline >= 16384 OR l.lanvalidator >= 16384)
UNION ALL
-- A service may have some of its superusers.
SELECT CASE WHEN r.rolsuper THEN 'own' ELSE 'bad' END,
    'event trigger ' || e.evtname || ' of ' || r.rolname || ' runs ' || e.evtfoid::regprocedure || ' at ' || e.evtevent || ': expected none',
    pg_catalog.format('DROP EVENT TRIGGER %I', e.evtname)
FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_roles r ON r.oid = e.evtowner
UNION ALL
-- Triggers, rules and row security on the server's own tables.
SELECT 'bad', 'relation ' || c.oid::regclass || ' of the server: expected no ' || v.what || ', observed one', NULL
FROM pg_catalog.pg_class c CROSS JOIN LATERAL (VALUES
    (EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid), 'trigger'),
    (EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid AND w.oid >= 16384), 'rule'),
    (c.relrowsecurity OR EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid), 'row security')
) AS v(is_so, what)
WHERE c.oid < 16384 AND v.is_so
