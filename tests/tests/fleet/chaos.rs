//! What happens to a fleet: kills, freezes, restarts of the database, and a look at what is stuck.

use std::time::{Duration, Instant};

use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use cutter_tests::cli::{Deployment, Dice, Running, Signal};
use postgres::Client;

/// What was done, and what was seen.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) kills: usize,
    pub(super) freezes: usize,
    pub(super) restarts: usize,
    pub(super) takeovers: i64,
    /// How long a lease that ran out was not taken over while somebody could have.
    pub(super) longest_overdue: Duration,
}

impl Figures {
    pub(super) fn shown(&self) -> String {
        format!(
            "{} kills, {} freezes, {} restarts, {} takeovers, a lost lease waited at most {:.1} s",
            self.kills,
            self.freezes,
            self.restarts,
            self.takeovers,
            self.longest_overdue.as_secs_f64()
        )
    }
}

struct Worker {
    process: Running,
    frozen_until: Option<Instant>,
}

pub(super) struct Chaos<'a> {
    d: &'a Deployment,
    server: &'a TestServer,
    dice: &'a mut Dice,
    workers: Vec<Worker>,
    lease: u64,
    /// The numbers of completed items at which the server restarts.
    restarts_at: Vec<i64>,
    client: Option<Client>,
    /// Leases are looked at again from here on: after a restart or with everybody frozen nobody
    /// could have taken anything over.
    quiet_until: Instant,
    figures: Figures,
}

impl<'a> Chaos<'a> {
    pub(super) fn begin(
        d: &'a Deployment,
        server: &'a TestServer,
        dice: &'a mut Dice,
        workers: usize,
        lease: u64,
        restarts: usize,
        runs: usize,
    ) -> Self {
        let at = |n: usize| i64::try_from(runs * (n + 1) / (restarts + 2)).unwrap();
        let mut chaos = Self {
            d,
            server,
            dice,
            workers: Vec::new(),
            lease,
            restarts_at: (0..restarts).map(at).rev().collect(),
            client: None,
            quiet_until: Instant::now() + Duration::from_secs(lease),
            figures: Figures::default(),
        };
        chaos.workers = (0..workers).map(|_| chaos.hire()).collect();
        chaos
    }

    fn hire(&self) -> Worker {
        let lease = self.lease.to_string();
        let arguments = ["worker", "--concurrency", "2", "--lease", &lease, "--poll", "200"];
        Worker { process: self.d.start(&arguments), frozen_until: None }
    }

    pub(super) fn shown(&self) -> String {
        self.figures.shown()
    }

    /// One second: somebody is killed or frozen, some thaw, and what is stuck is measured.
    pub(super) fn second(&mut self) {
        let hit = usize::try_from(self.dice.below(self.workers.len() as u64)).unwrap();
        let is_kill = self.dice.below(2) == 0;
        if is_kill {
            let new = self.hire();
            let mut old = std::mem::replace(&mut self.workers[hit], new);
            old.process.signal(Signal::KILL);
            let _ = old.process.wait();
            self.figures.kills += 1;
        } else if self.workers[hit].frozen_until.is_none() && self.workers[hit].process.signal(Signal::STOP) {
            let time = Duration::from_millis(500 + self.dice.below(1000 * (self.lease + 3)));
            self.workers[hit].frozen_until = Some(Instant::now() + time);
            self.figures.freezes += 1;
        }
        self.restart_if_due();
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            self.thaw(false);
            self.look();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn thaw(&mut self, all: bool) {
        for i in 0..self.workers.len() {
            let worker = &mut self.workers[i];
            if worker.frozen_until.is_some_and(|until| all || until <= Instant::now()) {
                worker.process.signal(Signal::CONT);
                worker.frozen_until = None;
            }
            // No worker ends by itself: trouble passes.
            if !worker.process.is_alive() {
                let new = self.hire();
                let ran = std::mem::replace(&mut self.workers[i], new).process.wait();
                panic!("a worker ended by itself: {ran:#?}");
            }
        }
    }

    fn restart_if_due(&mut self) {
        let Some(at) = self.restarts_at.last() else { return };
        let Some(client) = &mut self.client else { return };
        let sql = "SELECT count(*) FROM cutter_queue.v_work_item WHERE state = 'completed'";
        if client.query_one(sql, &[]).is_ok_and(|row| row.get::<_, i64>(0) >= *at) {
            self.restarts_at.pop();
            self.client = None;
            self.server.cluster().stop().unwrap();
            std::thread::sleep(Duration::from_millis(self.dice.below(2000)));
            self.server.cluster().start().unwrap();
            self.figures.restarts += 1;
            self.quiet_until = Instant::now() + Duration::from_secs(self.lease + 2);
        }
    }

    /// How long the lease that ran out first has waited for another worker.
    fn look(&mut self) {
        if self.workers.iter().all(|worker| worker.frozen_until.is_some()) {
            self.quiet_until = Instant::now() + Duration::from_secs(1);
        }
        if self.client.is_none() {
            self.client =
                self.d.database.dsn(Login::Admin).config().ok().and_then(|c| c.connect(postgres::NoTls).ok());
        }
        let Some(client) = &mut self.client else { return };
        let sql = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - expires_at)), 0)::float8
                   FROM cutter_queue.work_lease";
        let Ok(row) = client.query_one(sql, &[]) else {
            self.client = None;
            return;
        };
        let overdue = Duration::from_secs_f64(row.get::<_, f64>(0).max(0.0));
        if Instant::now() >= self.quiet_until {
            self.figures.longest_overdue = self.figures.longest_overdue.max(overdue);
        }
    }

    /// Everybody thaws, and ends in good order when told to.
    pub(super) fn end(mut self) -> Figures {
        self.thaw(true);
        for worker in &mut self.workers {
            worker.process.signal(Signal::TERM);
        }
        for worker in std::mem::take(&mut self.workers) {
            let ran = worker.process.wait();
            // A worker that has not yet begun to hear signals is ended by one.
            assert!(matches!(ran.code, Some(0) | None), "{ran:#?}");
        }
        let lost = "SELECT count(*) FROM cutter_queue.work_attempt WHERE ending = 'lease_lost'";
        let mut client = self.d.database.client(Login::Admin);
        self.figures.takeovers = client.query_one(lost, &[]).unwrap().get(0);
        std::mem::take(&mut self.figures)
    }
}

impl Drop for Chaos<'_> {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.process.signal(Signal::KILL);
        }
    }
}
