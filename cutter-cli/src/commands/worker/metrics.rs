//! Numbers for Prometheus, on a loopback port, for whoever asks for them.

use std::net::SocketAddr;
use std::time::Duration;

use cutter_core::port::work_queue::{QueueStatistics, WorkQueue as _};
use cutter_pg::PgQueue;
use futures_executor::block_on;
use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Response};

use super::crew::Crew;
use crate::failure::Failure;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long to wait for a question before looking whether the worker stops.
const PATIENCE: Duration = Duration::from_millis(200);

/// A bound port.
pub(super) struct Server {
    http: tiny_http::Server,
    queue: PgQueue,
}

type Labels = Vec<(String, String)>;

impl Server {
    /// Binds the port before the first item is taken.
    pub(super) fn bind(crew: &Crew, address: SocketAddr) -> Result<Self, Failure> {
        let http = tiny_http::Server::http(address)
            .map_err(|e| Failure::usage(format!("metrics cannot be served at {address}: {e}")))?;
        crew.cx.out.note(format!("numbers at http://{}/metrics", http.server_addr()));
        Ok(Self { http, queue: crew.queue() })
    }

    /// Answers until the crew stops.
    pub(super) fn serve(&self, crew: &Crew) {
        while !crew.is_stopping() {
            let request = match self.http.recv_timeout(PATIENCE) {
                Ok(Some(request)) => request,
                Ok(None) => continue,
                Err(error) => {
                    crew.cx.out.warn(format!("metrics: {error}"));
                    return;
                }
            };
            let is_ours = request.url() == "/metrics" && *request.method() == tiny_http::Method::Get;
            let (code, text) = if is_ours {
                match block_on(self.queue.statistics()) {
                    Ok(statistics) => (200, numbers(crew, &statistics)),
                    Err(error) => (503, format!("# {error}\n")),
                }
            } else {
                (404, "GET /metrics\n".to_owned())
            };
            let mut response = Response::from_string(text).with_status_code(code);
            if let (200, Ok(header)) = (code, Header::from_bytes("Content-Type", CONTENT_TYPE)) {
                response = response.with_header(header);
            }
            // Whoever asked and went away needs no answer.
            let _ = request.respond(response);
        }
    }
}

fn numbers(crew: &Crew, s: &QueueStatistics) -> String {
    let mut registry = Registry::with_prefix("cutter");
    let states = Family::<Labels, Gauge>::default();
    for (state, n) in &s.by_state {
        states.get_or_create(&label("state", state.as_str())).set(whole(*n));
    }
    registry.register("queue_items", "Items by state", states);
    let gauge = |registry: &mut Registry, name: &str, help: &str, value: i64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    let age = |at: Option<Timestamp>| at.map_or(0, |at| s.now.duration_since(at).as_secs().max(0));
    gauge(&mut registry, "queue_ready_items", "Items that a claim would find", whole(s.ready));
    gauge(
        &mut registry,
        "queue_oldest_ready_seconds",
        "Age of the longest wait for a claim",
        age(s.oldest_ready),
    );
    gauge(&mut registry, "queue_oldest_lease_seconds", "Age of the oldest lease", age(s.oldest_lease));
    gauge(&mut registry, "queue_expired_leases", "Leases that ran out", whole(s.expired_leases));
    gauge(
        &mut registry,
        "queue_watched",
        "1 while some worker looks for the words that parked items wait for",
        i64::from(s.watched_by.is_some()),
    );
    gauge(
        &mut registry,
        "queue_oldest_snapshot_seconds",
        "Age of the oldest snapshot held open; old ones make claims slow",
        age(s.oldest_snapshot),
    );
    let busy = i64::try_from(crew.busy()).unwrap_or(i64::MAX);
    gauge(&mut registry, "worker_busy_hands", "Runs that this worker drives now", busy);
    let outcomes = Family::<Labels, prometheus_client::metrics::counter::Counter>::default();
    for (what, n) in crew.tally() {
        outcomes.get_or_create(&label("outcome", &what.replace(' ', "_"))).inc_by(n);
    }
    registry.register("worker_items", "Items by what became of them in this process", outcomes);
    let mut text = String::new();
    // A String takes everything.
    let _ = encode(&mut text, &registry);
    text
}

fn label(name: &str, value: &str) -> Labels {
    vec![(name.to_owned(), value.to_owned())]
}

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
