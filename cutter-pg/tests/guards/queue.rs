//! Of the queue and of locks: whoever comes at the same time.

use std::time::{Duration, Instant};

use cutter_pg::login::Login;
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;

use super::Scene;
use super::support::{World, id};

/// Stores an item that is done.
fn done(exec: &mut Client) {
    let me = id();
    exec.batch_execute(&format!(
        "SELECT FROM cutter_queue.fn_work_enqueue(ARRAY['i'], ARRAY['k'], ARRAY['x']::bytea[],
             ARRAY[sha256(convert_to(E'k\\nx', 'UTF8'))], ARRAY[1], ARRAY[3], ARRAY[3], ARRAY[1000], ARRAY[2000],
             ARRAY[0]::smallint[], ARRAY[false], ARRAY['me']);
         SELECT FROM cutter_queue.fn_work_claim('{me}', 1, 60000) c,
             cutter_queue.fn_work_complete(ARRAY[c.item_id], ARRAY[c.epoch], ARRAY['{me}'::uuid])"
    ))
    .unwrap();
}

#[test]
fn the_oldest_day_goes_alone_and_by_one_hand() {
    let world = World::new();
    done(&mut world.database.client(Login::Exec));
    let days = |done_on: &str, also: &str| {
        format!(
            "SELECT cutter_queue.fn_work_day('{done_on}'), cutter_queue.fn_work_day('{also}');
             UPDATE cutter_queue.work_done SET finished_on = '{done_on}', finished_at = '{done_on}T12:00Z'"
        )
    };
    let call = |keep: &str, after: &str| {
        format!(
            "SELECT concat_ws(' ', r.day, r.items, r.next_after IS NOT NULL) FROM cutter_queue.fn_work_retain({keep}, {after}, 10) r;
             SELECT count(*) FROM cutter_queue.work_key"
        )
    };
    let retain = call("1", "0");
    let all = call("1", "99999999");
    let (first, second) = ("2026-01-01", "2026-01-02");
    let today = "(SELECT cutter_queue.fn_work_now() AT TIME ZONE 'UTC')::date";
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        // its keys first, then the day
        (days(first, second), &retain, "2026-01-01 0 t,0"),
        (days(first, second), &all, "2026-01-01 1 f,1"),
        // the items of another day are not touched
        (days(second, first), &retain, "2026-01-01 0 f,1"),
        (days(second, first), &all, "2026-01-01 0 f,1"),
        // a key that was taken again meanwhile stays
        (
            format!("{}; UPDATE cutter_queue.work_key SET item_id = item_id + 1000", days(first, second)),
            &retain,
            "2026-01-01 0 t,1",
        ),
        // as many days as are kept
        (days(first, second), &call(&format!("{today} - '2026-01-01'::date - 1"), "0"), "2026-01-01 0 t,0"),
        (days(first, second), &call(&format!("{today} - '2026-01-01'::date"), "0"), "1"),
        (days(first, second), &call("0", "0"), "CU005"),
        (String::new(), &retain, "1"),
    ]);
    let mut other = world.database.client(Login::Admin);
    other
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(hashtext('cutter_queue.fn_work_retain'))")
        .unwrap();
    owner.holds(&[(days(first, second), &retain, "1")]);
    other.batch_execute("ROLLBACK").unwrap();
    owner.holds(&[(days(first, second), &retain, "2026-01-01 0 t,0")]);
}

#[test]
fn who_finds_a_day_there_waits_its_turn_and_holds_nothing_afterwards() {
    let world = World::new();
    let day = "SELECT cutter_queue.fn_work_day('2026-01-01')";
    let locks = "SELECT count(*) FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory'";
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[("", format!("{day}; {locks}"), ",1")]);
    world.database.client(Login::Admin).batch_execute(day).unwrap();
    owner.holds(&[("", format!("{day}; {locks}"), ",0")]);
    // and waits for whoever makes a day meanwhile, who has perhaps not told of it yet
    let mut maker = world.database.client(Login::Admin);
    maker.batch_execute("BEGIN; SELECT cutter_queue.fn_work_day('2026-01-02')").unwrap();
    let vain = "55P03: waits for its turn in vain";
    owner.holds(&[("", format!("SET LOCAL lock_timeout = '100ms'; {day}"), vain)]);
    maker.batch_execute("COMMIT").unwrap();
    owner.holds(&[("", format!("{day}; {locks}"), ",0")]);
}

#[test]
fn what_waits_is_ready_from_its_moment_on() {
    let world = World::new();
    let waits = |at: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION cutter_queue.fn_work_now() RETURNS timestamptz LANGUAGE sql
                 AS $$ SELECT timestamptz '2026-01-02Z' $$;
             INSERT INTO cutter_queue.work_wait (item_id, priority, came_from, state, attempts, failures, epoch, ready_at, holder,
                 claimed_at)
             VALUES (1, 1, 'executing', 'awaiting_tool', 1, 1, 1, '{at}', gen_random_uuid(), now())"
        )
    };
    let told = "SELECT s.ready || coalesce(' since ' || (s.oldest_ready AT TIME ZONE 'UTC'), '')
        FROM cutter_queue.fn_work_statistics() s";
    Scene::of(&world, "cutter_ro").holds(&[
        (waits("2026-01-02Z"), told, "1 since 2026-01-02 00:00:00"),
        (waits("2026-01-01 23:59:59.999999Z"), told, "1 since 2026-01-01 23:59:59.999999"),
        (waits("2026-01-02 00:00:00.000001Z"), told, "0"),
    ]);
}

#[test]
fn a_notice_is_given_of_what_became_ready_and_of_nothing() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let mut listener = world.database.client(Login::Exec);
    listener.batch_execute("LISTEN cutter_queue").unwrap();
    let me = id();
    let enqueue = "SELECT FROM cutter_queue.fn_work_enqueue(ARRAY['i'], ARRAY['k'], ARRAY['x']::bytea[],
        ARRAY[sha256(convert_to(E'k\\nx', 'UTF8'))], ARRAY[1], ARRAY[3], ARRAY[3], ARRAY[1000], ARRAY[2000],
        ARRAY[0]::smallint[], ARRAY[false], ARRAY['me'])";
    let hand_back = format!(
        "SELECT cutter_queue.fn_work_hand_back(ARRAY[k.item_id], ARRAY[1], ARRAY['{me}'::uuid]) FROM cutter_queue.work_key k"
    );
    let claim = format!("SELECT FROM cutter_queue.fn_work_claim('{me}', 1, 60000)");
    for (call, notices) in
        [(enqueue, 1), (enqueue, 0), (&hand_back, 0), (&claim, 0), (&hand_back, 1), (&hand_back, 0)]
    {
        exec.batch_execute(call).unwrap();
        exec.batch_execute("SELECT pg_notify('cutter_queue', 'end')").unwrap();
        let mut heard = 0;
        let mut notices_of = listener.notifications();
        let mut all = notices_of.timeout_iter(Duration::from_secs(10));
        while all.next().unwrap().unwrap().payload() != "end" {
            heard += 1;
        }
        assert_eq!(heard, notices, "{call}");
    }
}

/// Whether a session waits for a lock.
fn is_waiting(admin: &mut Client, pid: i32) -> bool {
    let waits = "SELECT EXISTS (SELECT FROM pg_locks l WHERE l.pid = $1 AND NOT l.granted)";
    admin.query_one(waits, &[&pid]).unwrap().get(0)
}

fn pid_of(client: &mut Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0)
}

#[test]
fn the_watch_is_one_workers_until_it_lapses_whoever_asks_at_the_same_time() {
    let world = World::new();
    let (mine, theirs) = (id(), id());
    let take = |who: &uuid::Uuid| format!("SELECT cutter_queue.fn_work_take_watch('{who}', 60000)");
    let held = |by: &uuid::Uuid, until: &str| {
        format!(
            "INSERT INTO cutter_queue.work_watch (holder, expires_at) VALUES ('{by}', clock_timestamp() + interval '{until}')"
        )
    };
    Scene::of(&world, "cutter_exec").holds(&[
        (String::new(), take(&mine), "t"),
        (held(&mine, "1 hour"), take(&mine), "t"),
        (held(&mine, "-1 hour"), take(&mine), "t"),
        (held(&theirs, "1 hour"), take(&mine), "f"),
        (held(&theirs, "-1 hour"), take(&mine), "t"),
    ]);
    // Both saw it free; the second waits for the first, and then sees that it is not.
    let mut first = world.database.client(Login::Exec);
    let mut second = world.database.client(Login::Exec);
    let mut admin = world.database.client(Login::Admin);
    let pid = pid_of(&mut second);
    first.batch_execute(&format!("BEGIN; {}", take(&theirs))).unwrap();
    let both = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| second.query_one(&take(&mine), &[]).unwrap().get::<_, bool>(0));
        let started = Instant::now();
        while !is_waiting(&mut admin, pid)
            && !waiting.is_finished()
            && started.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        first.batch_execute("COMMIT").unwrap();
        waiting.join().unwrap()
    });
    assert!(!both, "the watch was taken from who had it");
}

#[test]
fn who_takes_a_fence_ends_the_sessions_of_its_run_and_no_others() {
    let (world, elsewhere) = (World::new(), World::new());
    let suffix = "019e44de-2e05-7000-8000-00000005c900";
    let long = format!("run-{suffix}");
    for run in ["r", long.as_str()] {
        let take = |epoch: i64| {
            (format!("SELECT cutter_governance.fn_run_fence_take('{run}', 'D', '{}')", id()), epoch)
        };
        let named = |world: &World, login: Login, name: &str| {
            let mut client = world.database.client(login);
            client.batch_execute(&format!("SET application_name = '{name}'")).unwrap();
            client
        };
        let own = format!("cutter/{run}/leg_a");
        let mut holder = named(&world, Login::Exec, &own);
        let mut taker = named(&world, Login::Exec, &own);
        taker.batch_execute("SET lock_timeout = '10s'").unwrap();
        let mut ends = vec![("of another duty", named(&world, Login::Verify, &own))];
        let mut stay = vec![
            ("another run's", named(&world, Login::Exec, &format!("cutter/{run}x/leg_a"))),
            ("no run's", named(&world, Login::Exec, "cutter")),
            ("a reader's", named(&world, Login::Ro, &own)),
            ("another database's", named(&elsewhere, Login::Exec, &own)),
        ];
        let by_suffix = ("by its last part", named(&world, Login::Review, &format!("cutter/{suffix}/leg_a")));
        if run == long {
            ends.push(by_suffix)
        } else {
            stay.push(by_suffix)
        }
        let ask = |client: &mut Client, (sql, epoch): (String, i64)| {
            let taken: i64 = client.query_one(&sql, &[]).unwrap().get(0);
            assert_eq!(taken, epoch, "{run}");
        };
        ask(&mut taker, take(1));
        // nobody is ended where the fence is free
        assert!(!holder.is_closed() && holder.simple_query("SELECT 1").is_ok());
        holder.batch_execute(&format!("BEGIN; {}", take(0).0)).unwrap();
        ask(&mut taker, take(2));
        assert!(holder.simple_query("SELECT 1").is_err(), "{run}: who held it goes on");
        for (which, client) in &mut ends {
            let started = Instant::now();
            while client.simple_query("SELECT 1").is_ok() {
                assert!(started.elapsed() < Duration::from_secs(10), "{run}: a session {which} goes on");
            }
        }
        for (which, client) in &mut stay {
            assert!(client.simple_query("SELECT 1").is_ok(), "{run}: a session was ended that is {which}");
        }
    }
}

#[test]
fn an_attempt_ends_behind_the_lock_of_its_own_command() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let body = r#"{"kind":"x"}"#;
    for key in ["k", "l"] {
        exec.batch_execute(&format!(
            "SELECT FROM cutter_governance.fn_command_claim('{key}', '{body}', encode(sha256('{body}'), 'hex'), 'me', '{}',
                 60000, now())",
            id()
        ))
        .unwrap();
    }
    let settles = |key: &str, epoch: u32, state: &str| {
        format!(
            r#"INSERT INTO cutter_governance.command_settlement (command_key, epoch, state, settlement, due_at, at)
               VALUES ('{key}', {epoch}, '{state}', '{{"state":"{state}"}}', CASE '{state}' WHEN 'waiting' THEN now() END, now())"#
        )
    };
    let held = format!(
        "{}; SELECT c.command_key FROM cutter_governance.command c WHERE c.xmax::text = pg_current_xact_id()::xid::text",
        settles("k", 1, "done")
    );
    let attempt = "INSERT INTO cutter_governance.command_attempt (command_key, epoch, cause, holder, actor, lease_until, at)
        SELECT command_key, 2, 'retry', holder, actor, lease_until, at FROM cutter_governance.command_attempt WHERE command_key = 'k'";
    let unguarded =
        "ALTER TABLE cutter_governance.command_settlement DISABLE TRIGGER trg_command_settlement_guard";
    let (was_done, was_waiting) = (settles("k", 1, "done"), settles("k", 1, "waiting"));
    let with = |more: &[&str]| more.join("; ");
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        (String::new(), held, "k"),
        (String::new(), settles("k", 2, "done"), "CUF15"),
        (String::new(), settles("m", 1, "done"), "CUF15"),
        (was_done.clone(), settles("k", 1, "failed"), "CUC15"),
        (was_waiting.clone(), settles("k", 1, "done"), "CUC15"),
        (with(&[&was_waiting, attempt]), settles("k", 1, "done"), "CUF15"),
        (with(&[&was_waiting, attempt]), settles("k", 2, "done"), ""),
        // another's end is none of this one
        (was_done.clone(), settles("l", 1, "done"), ""),
        // and once more, where nobody else asks
        (with(&[&was_done, attempt, unguarded]), settles("k", 2, "failed"), "23505"),
        (with(&[&was_done, attempt, unguarded]), settles("k", 2, "waiting"), ""),
        (with(&[&was_waiting, attempt, unguarded]), settles("k", 2, "failed"), ""),
    ]);
}
