-- Who is let in, and how: our own server takes passwords over its socket, and nothing else.
SELECT CASE WHEN h.auth_method = 'trust' THEN 'own' ELSE 'home' END,
    'pg_hba.conf line ' || h.line_number || ': expected local all all scram-sha-256, observed '
        || concat_ws(' ', h.type, pg_catalog.array_to_string(h.database, ','), pg_catalog.array_to_string(h.user_name, ','), h.address, h.auth_method)
        || coalesce(' (' || h.error || ')', ''),
    NULL
FROM pg_catalog.pg_hba_file_rules h
WHERE h.error IS NOT NULL OR NOT (h.type = 'local' AND h.database = '{all}' AND h.user_name = '{all}' AND h.auth_method = 'scram-sha-256')
