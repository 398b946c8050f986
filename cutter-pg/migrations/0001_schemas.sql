-- Schemas, ownership, default privileges, and the configuration table with its vocabularies.
--
-- Runs as the database's administrator. Everything is owned by the NOLOGIN role cutter_owner,
-- so that no login can change what it is bound by. Objects are created under SET ROLE, which
-- is what makes the default privileges below apply to them.

-- Global form on purpose: a REVOKE with IN SCHEMA cannot take away what the built-in default
-- gives to PUBLIC.
ALTER DEFAULT PRIVILEGES FOR ROLE cutter_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE cutter_owner REVOKE USAGE ON TYPES FROM PUBLIC;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
DO $do$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END
$do$;

-- fn_run_fence_take ends the sessions of a former holder of the same run. It is the only use
-- of this membership; the owner cannot log in.
DO $do$
BEGIN
    IF NOT pg_has_role('cutter_owner', 'pg_signal_backend', 'MEMBER') THEN
        GRANT pg_signal_backend TO cutter_owner;
    END IF;
END
$do$;

CREATE SCHEMA iu_core AUTHORIZATION cutter_owner;
CREATE SCHEMA cutter_governance AUTHORIZATION cutter_owner;

COMMENT ON SCHEMA iu_core IS 'Source documents and the information units cut from them.';
COMMENT ON SCHEMA cutter_governance IS 'Who decided, did and verified what: append-only.';

CREATE TABLE public.dot_config (
    config_key   text COLLATE "C" PRIMARY KEY CHECK (config_key ~ '^[a-z0-9_]+([.][a-z0-9_]+)*$'),
    config_value text NOT NULL,
    description  text NOT NULL DEFAULT ''
);
ALTER TABLE public.dot_config OWNER TO cutter_owner;
COMMENT ON TABLE public.dot_config IS
    'Settings of the deployment. vocab.<name>.<word>: one row per word; config_value is the place in the list.';

INSERT INTO public.dot_config (config_key, config_value, description)
SELECT 'vocab.' || v.name || '.' || w.word, lpad(w.place::text, 2, '0'), v.name
FROM (VALUES
    ('unit_kind', 'document front preamble recital part book title subtitle chapter subchapter division '
        'section subsection article clause point subpoint annex amendment heading closing'),
    ('section_type', 'preface enacting_formula preamble definitions general substantive penal procedural '
        'transitional final repealed_placeholder annex form table toc signature note'),
    ('publication_type', 'constitution code act ordinance decree regulation circular resolution decision '
        'treaty standard charter')
) AS v(name, words)
CROSS JOIN LATERAL unnest(string_to_array(v.words, ' ')) WITH ORDINALITY AS w(word, place);
