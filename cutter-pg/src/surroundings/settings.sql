-- Settings that sessions of ours begin with, whoever gave them.
, given AS (
    SELECT s.setrole, s.setdatabase, split_part(c.pair, '=', 1) AS name, substr(c.pair, strpos(c.pair, '=') + 1) AS value
    FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS c(pair)
    WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))
        -- What changes how much is logged or how fast it goes, and never what a statement does.
        AND NOT split_part(c.pair, '=', 1) ~ ('^(log_.*|track_.*|auto_explain[.].*|pg_stat_statements[.].*|pgaudit[.].*|work_mem|hash_mem_multiplier'
            || '|maintenance_work_mem|logical_decoding_work_mem|temp_buffers|temp_file_limit|effective_cache_size|effective_io_concurrency'
            || '|maintenance_io_concurrency|(random|seq)_page_cost|cpu_.*_cost|parallel_.*_cost|max_parallel_.*|jit|jit_.*_cost|enable_.*'
            || '|geqo.*|client_min_messages|lc_messages|compute_query_id|deadlock_timeout|debug_print_.*|debug_pretty_print)$')
)
SELECT CASE
        WHEN a.oid IS NOT NULL THEN a.class
        -- What a login may set by itself is the front end's own affair; what it may not is nobody's to hand it.
        WHEN pg_catalog.pg_get_userbyid(g.setrole) <> 'directus' OR p.context IN ('superuser', 'superuser-backend', 'backend')
            OR g.name ~ '^(role|row_security|(local|session)_preload_libraries|dynamic_library_path|plpgsql[.].*)$' THEN 'bad'
        ELSE 'note' END,
    'setting ' || g.name || ' of ' || concat_ws(' in ', CASE WHEN g.setrole = 0 AND g.setdatabase <> 0 THEN NULL
            WHEN g.setrole = 0 THEN 'all roles' ELSE 'role ' || pg_catalog.pg_get_userbyid(g.setrole) END,
            CASE WHEN g.setdatabase <> 0 THEN 'this database' END)
        || ': expected none, observed ' || g.value,
    'ALTER ' || CASE WHEN g.setrole = 0 AND g.setdatabase <> 0
            THEN pg_catalog.format('DATABASE %I', pg_catalog.current_database())
            ELSE 'ROLE ' || CASE WHEN g.setrole = 0 THEN 'ALL' ELSE quote_ident(pg_catalog.pg_get_userbyid(g.setrole)) END
                || CASE WHEN g.setdatabase <> 0 THEN pg_catalog.format(' IN DATABASE %I', pg_catalog.current_database()) ELSE '' END END
        || ' RESET ' || quote_ident(g.name)
FROM given g LEFT JOIN pg_catalog.pg_settings p ON pg_catalog.lower(p.name) = pg_catalog.lower(g.name)
LEFT JOIN administrators a ON a.oid = g.setrole
WHERE (g.setrole = 0 OR g.setrole IN (SELECT o.oid FROM ours o) OR a.oid IS NOT NULL)
    AND pg_catalog.lower(g.value) IS DISTINCT FROM pg_catalog.lower(p.boot_val)
UNION ALL
-- Those of the server. What the settings above say of this very session is told there.
SELECT CASE WHEN w.is_ever THEN 'bad' ELSE 'own' END,
    'setting ' || p.name || ' of the server: expected ' || coalesce(nullif(w.value, ''), 'nothing') || ', observed ' || p.reset_val
        || coalesce(', from ' || p.sourcefile || ' line ' || p.sourceline, ''),
    pg_catalog.format('ALTER SYSTEM RESET %I; SELECT pg_catalog.pg_reload_conf()', p.name)
FROM wanted w JOIN pg_catalog.pg_settings p ON p.name = w.name
WHERE pg_catalog.lower(p.reset_val) <> w.value
    AND NOT EXISTS (SELECT FROM given g WHERE pg_catalog.lower(g.name) = w.name
        AND (g.setrole = 0 OR g.setrole = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = session_user)))
UNION ALL
SELECT 'bad', 'setting ' || w.name || ' of the server: expected ' || w.value || ', observed ' || pg_catalog.current_setting(w.name, true),
    'ALTER SYSTEM RESET ' || w.name || '; SELECT pg_catalog.pg_reload_conf()'
FROM (VALUES ('plpgsql.variable_conflict', 'error'), ('plpgsql.check_asserts', 'on')) AS w(name, value)
WHERE coalesce(nullif(pg_catalog.current_setting(w.name, true), ''), w.value) <> w.value
    AND NOT EXISTS (SELECT FROM given g WHERE g.name = w.name)
UNION ALL
SELECT 'note', 'not looked at: which libraries are loaded, which only who may read all settings is shown (the administrator''s connection)', NULL
WHERE NOT pg_catalog.pg_has_role('pg_read_all_settings', 'USAGE')
