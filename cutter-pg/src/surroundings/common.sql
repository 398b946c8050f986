-- What the looks around the schema share. Only the server's own catalogue is asked, never a function of the
-- database under check. Each look gives rows (class, what, undo): `bad` is a fault wherever it is, `own` only
-- where the server is ours alone (elsewhere a service may need it, and it is a note), `home` the same and elsewhere
-- nothing, `note` is said and no more.
WITH RECURSIVE ours AS (
    SELECT r.oid, r.rolname::text AS name, r.rolname NOT IN ('cutter_owner', 'cutter_copy') AS is_login
    FROM pg_catalog.pg_roles r
    WHERE r.rolname ~ '^cutter_(owner|copy|exec|verify|review|ro)$' OR r.rolname = 'directus'
), administrators AS (
    -- Who may do everything here by right: superusers (a look of their own names them), who looks, who migrated.
    SELECT r.oid, r.rolname::text AS name,
        CASE WHEN r.rolname = session_user OR NOT r.rolsuper THEN 'own' ELSE 'home' END AS class
    FROM pg_catalog.pg_roles r
    WHERE r.oid NOT IN (SELECT o.oid FROM ours o) AND (r.rolsuper OR r.rolname = session_user
        OR r.oid = (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'cutter_meta'))
), mighty AS (
    -- As whom a function runs past every wall of ours.
    SELECT r.oid FROM pg_catalog.pg_roles r
    WHERE r.rolsuper OR EXISTS (SELECT FROM ours o WHERE o.name <> 'directus' AND pg_catalog.pg_has_role(r.oid, o.oid, 'MEMBER'))
), schemas AS (
    SELECT n.oid, n.nspname::text AS name FROM pg_catalog.pg_namespace n
    WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_queue_day', 'cutter_run', 'cutter_meta')
), relations AS (
    SELECT c.oid, c.relkind, c.relnamespace, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND (n.oid IN (SELECT s.oid FROM schemas s)
        OR n.nspname = 'public' AND pg_catalog.pg_get_userbyid(c.relowner) = 'cutter_owner')
), members_of_extensions AS (
    SELECT d.classid, d.objid, e.extname::text AS extension
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
    WHERE d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
)
-- Settings of the server that decide what statements do, as they must be; is_ever: on any server, not on our own alone.
, wanted(name, value, is_ever) AS (VALUES
    ('session_replication_role', 'origin', true), ('row_security', 'on', true), ('check_function_bodies', 'on', true),
    ('transform_null_equals', 'off', true), ('array_nulls', 'on', true), ('standard_conforming_strings', 'on', true),
    ('backslash_quote', 'safe_encoding', true), ('quote_all_identifiers', 'off', true), ('xmloption', 'content', true),
    ('allow_system_table_mods', 'off', true), ('ignore_system_indexes', 'off', true), ('zero_damaged_pages', 'off', true),
    ('ignore_checksum_failure', 'off', true), ('default_table_access_method', 'heap', true), ('default_transaction_deferrable', 'off', true),
    ('lo_compat_privileges', 'off', true), ('local_preload_libraries', '', true),
    ('session_preload_libraries', '', false), ('shared_preload_libraries', '', false), ('dynamic_library_path', '$libdir', false),
    ('jit_provider', 'llvmjit', false), ('bytea_output', 'hex', false), ('default_transaction_read_only', 'off', false),
    ('default_transaction_isolation', 'read committed', false), ('search_path', '"$user", public', false),
    ('statement_timeout', '0', false), ('lock_timeout', '0', false), ('transaction_timeout', '0', false),
    ('idle_in_transaction_session_timeout', '0', false), ('idle_session_timeout', '0', false), ('synchronous_commit', 'on', false)
)
