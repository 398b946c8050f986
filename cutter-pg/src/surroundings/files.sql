-- What the server's files say and the server does not do yet.
, last AS (
    SELECT DISTINCT ON (f.name) f.name, f.setting, f.sourcefile, f.sourceline
    FROM pg_catalog.pg_file_settings f WHERE f.error IS NULL ORDER BY f.name, f.seqno DESC
)
SELECT CASE WHEN w.is_ever THEN 'bad' ELSE 'own' END,
    'setting ' || l.name || ' of the server: expected ' || coalesce(nullif(w.value, ''), 'nothing') || ', observed ' || l.setting
        || ' from the next start or reload, in ' || l.sourcefile || ' line ' || l.sourceline,
    pg_catalog.format('ALTER SYSTEM RESET %I; SELECT pg_catalog.pg_reload_conf()', l.name)
FROM last l JOIN wanted w ON w.name = l.name JOIN pg_catalog.pg_settings p ON p.name = w.name
WHERE pg_catalog.lower(l.setting) <> w.value AND pg_catalog.lower(p.reset_val) = w.value
