//! Lists and single requests cost the same however many there are; and the migrations that bring cut
//! requests leave nothing when they are rolled back, change nothing when they come again, and bear
//! two runners.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use cutter_core::machine::cut_request::CutRequestStatus as S;
use cutter_core::port::cut_request::{CutRequests as _, RequestQuery};
use cutter_pg::login::Login;
use cutter_pg::migrate::Migrator;
use cutter_pg::testing::TestServer;
use futures_executor::block_on;
use support::{World, port_of};

/// Many requests of one instant, one status and one source, and few of others.
const FILLER: &str = "
SET session_replication_role = replica;
INSERT INTO public.cut_request (cut_request_id, source_ref, requested_by, requested_at, status)
SELECT md5('r' || i)::uuid, 'laws/' || CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'common' END || '.md', 'me',
    timestamptz '2026-01-01Z' + (i / 100) * interval '1 second',
    CASE WHEN i % 500 = 0 THEN 'cut_failed' ELSE 'cleaned' END
FROM generate_series(1, $n) i;
INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor, occurred_at)
SELECT q.cut_request_id, s.status, 'me', q.requested_at
FROM public.cut_request q, unnest(ARRAY['requested', 'copied', 'cleaned']) AS s(status);
RESET session_replication_role;
VACUUM ANALYZE public.cut_request;
VACUUM ANALYZE public.cut_request_transition";

/// Blocks of requests and transitions that were looked at so far, once every other session has left
/// (and so reported its counts).
fn blocks(world: &World) -> i64 {
    let mut admin = world.database.client(Login::Admin);
    let until = Instant::now() + Duration::from_secs(10);
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    while admin.query_one(others, &[]).unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < until, "sessions stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sum =
        "SELECT sum(coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0) + coalesce(idx_blks_read, 0)
            + coalesce(idx_blks_hit, 0))::bigint
        FROM pg_statio_user_tables WHERE schemaname = 'public' AND starts_with(relname, 'cut_request')";
    admin.query_one(sum, &[]).unwrap().get(0)
}

#[test]
fn a_page_looks_at_few_blocks_however_many_requests_there_are() {
    let mut world = World::new();
    let stored = if std::env::var_os("CUTTER_FULL").is_some() { "1000000" } else { "100000" };
    let fill = FILLER.replace("$n", stored);
    for statement in fill.split(';').filter(|s| !s.trim().is_empty()).collect::<Vec<_>>().chunks(7) {
        let mut admin = world.database.client(Login::Admin);
        for one in statement {
            admin.batch_execute(one).unwrap();
        }
    }
    let page = |query: RequestQuery| RequestQuery { limit: 50, ..query };
    let middle = {
        let mut admin = world.database.client(Login::Admin);
        let row = admin.query_one("SELECT md5('r50000')::uuid", &[]).unwrap();
        row.get::<_, uuid::Uuid>(0)
    };
    let after = Some(("2026-01-01T00:08:20Z".parse().unwrap(), middle));
    let queries = [
        (RequestQuery::default(), 50),
        (RequestQuery { after, ..RequestQuery::default() }, 50),
        (RequestQuery { status: Some(S::CutFailed), ..RequestQuery::default() }, 50),
        (RequestQuery { status: Some(S::CutFailed), after, ..RequestQuery::default() }, 50),
        (RequestQuery { status: Some(S::Marked), ..RequestQuery::default() }, 0),
        (RequestQuery { source_ref: Some("laws/rare.md".to_owned()), ..RequestQuery::default() }, 50),
        (RequestQuery { source_ref: Some("laws/none.md".to_owned()), ..RequestQuery::default() }, 0),
        (
            RequestQuery {
                status: Some(S::Cleaned),
                source_ref: Some("laws/common.md".to_owned()),
                ..RequestQuery::default()
            },
            50,
        ),
    ];
    for (query, rows) in queries {
        world.port = port_of(&world.database);
        let before = blocks(&world);
        assert_eq!(block_on(world.port.list(&page(query.clone()))).unwrap().len(), rows, "{query:?}");
        world.port = port_of(&world.database);
        let looked = blocks(&world) - before;
        // Fifty rows, each in a block of its own at worst, and the way down the index.
        assert!(looked <= 50 + 2 * 12, "{query:?}: {looked} blocks");
    }
    world.port = port_of(&world.database);
    let before = blocks(&world);
    assert!(block_on(world.port.get(middle)).unwrap().is_some());
    assert_eq!(block_on(world.port.timeline(middle)).unwrap().len(), 3);
    world.port = port_of(&world.database);
    let looked = blocks(&world) - before;
    assert!(looked <= 40, "{looked} blocks for one request and its timeline");
}

const OBJECTS: &str = "
SELECT coalesce(string_agg(o.name, E'\\n' ORDER BY o.name), '') FROM (
    SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    UNION ALL
    SELECT 'class ' || n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    UNION ALL
    SELECT 'function ' || n.nspname || '.' || p.proname || '(' || oidvectortypes(p.proargtypes) || ')' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    UNION ALL
    SELECT 'acl ' || p.proname || coalesce(p.proacl::text, '') FROM pg_proc p WHERE p.proname = 'pg_read_binary_file'
    UNION ALL
    SELECT 'default ' || d.defaclobjtype::text || d.defaclacl::text FROM pg_default_acl d
) AS o(name)";

#[test]
fn the_migrations_leave_nothing_when_rolled_back_and_change_nothing_when_repeated() {
    let server = TestServer::shared();
    let database = server.empty_database();
    let mut admin = database.client(Login::Admin);
    let shipped = Migrator::shipped().unwrap();
    let count = cutter_pg::migrations::migrations().len();
    // The steps up to the one before cut requests, then the rest as a dry run.
    let older = Migrator::new(&cutter_pg::migrations::migrations()[..11]).unwrap();
    assert_eq!(older.run(&mut admin).unwrap().len(), 11);
    let objects = |admin: &mut postgres::Client| -> String { admin.query_one(OBJECTS, &[]).unwrap().get(0) };
    let before = objects(&mut admin);
    assert_eq!(shipped.dry_run(&mut admin).unwrap().len(), count - 11);
    assert_eq!(objects(&mut admin), before, "rolled back, it leaves no object");
    // Two runners at once: each step is applied once.
    let applied: Vec<usize> = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = database.client(Login::Admin);
                    Migrator::shipped().unwrap().run(&mut client).unwrap().len()
                })
            })
            .collect();
        runners.into_iter().map(|runner| runner.join().unwrap()).collect()
    });
    assert_eq!(applied.iter().sum::<usize>(), count - 11, "{applied:?}");
    let after = objects(&mut admin);
    for name in [
        "class public.cut_request",
        "class cutter_queue.job_signal",
        "function public.fn_cut_complete(uuid, text)",
    ] {
        assert!(after.lines().any(|line| line == name), "{name}");
    }
    assert!(shipped.run(&mut admin).unwrap().is_empty());
    assert_eq!(objects(&mut admin), after, "applied twice, it changes nothing");
}
