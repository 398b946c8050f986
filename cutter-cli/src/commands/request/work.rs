//! `cutter request work`.

use clap::Args;
use cutter_core::driver::{self, Worked};
use cutter_core::record::cut_request::next_commands;
use futures_executor::block_on;
use serde_json::{Value, json};

use crate::commands::orchestrate::{self, Presented, deployment_settings};
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{BAD, DIM, GOOD, paint, table};
use crate::wire;

/// One pass over the signals that ask for a cut or its verification: each request is served once.
///
/// `fn_cut_apply` and `fn_cut_verify_cut` leave such signals, and so does `cutter request cut`.
/// A run that waits for an approval is taken up again by every pass, so that a pass now and then
/// (a timer, cron) is all that a deployment without workers needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request work
  cutter request work --limit 10 --json")]
pub(super) struct WorkArgs {
    /// At most so many signals.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

struct Line {
    request: String,
    status: String,
    run: String,
    what: String,
    exit: Exit,
    json: Value,
}

pub(super) fn run(cx: &Context, args: &WorkArgs) -> Outcome {
    let config = cx.config()?;
    let opened = wire::open(&config, &cx.out)?;
    let caller = wire::caller(&config, "request work");
    let settings = deployment_settings(&config, &opened.backup_fingerprint)?;
    let requests = opened.requests.as_ref();
    let worked = block_on(driver::work(&opened.ports, requests, &caller, &settings, args.limit))?;
    let mut lines = Vec::new();
    for one in worked {
        let presented = one.served.as_ref().ok().map(|served| {
            let presented = orchestrate::present(&served.driven, opened.stores.runs.as_ref(), None);
            presented.tell(cx, &config);
            presented
        });
        lines.push(line(one, presented));
    }
    // The worst of them, so that a timer's mail says that somebody must look.
    let exit = lines.iter().map(|line| line.exit).max().unwrap_or(Exit::DONE);
    let machine = json!({ "served": lines.iter().map(|line| &line.json).collect::<Vec<_>>() });
    cx.out.result_as(exit, || people(&lines), &machine)
}

fn line(worked: Worked, presented: Option<Presented>) -> Line {
    let signal = json!({
        "signal_id": worked.signal.signal_id,
        "signal": worked.signal.name.to_string(),
        "cut_request_id": worked.signal.cut_request_id,
    });
    let request = worked.signal.cut_request_id.to_string();
    match (worked.served, presented) {
        (Ok(served), Some(presented)) => {
            let next = next_commands(&served.request);
            Line {
                request,
                status: served.request.status.to_string(),
                run: presented.summary.run_id.clone(),
                what: presented.summary.state.clone(),
                exit: presented.exit,
                json: json!({ "signal": signal, "request": served.request, "run": presented, "next": next }),
            }
        }
        (Err(error), _) => {
            let failure = Failure::from(error);
            let mut json = failure.json();
            json["signal"] = signal;
            Line {
                request,
                status: "-".to_owned(),
                run: "-".to_owned(),
                what: failure.what.clone(),
                exit: failure.exit,
                json,
            }
        }
        (Ok(served), None) => Line {
            request,
            status: served.request.status.to_string(),
            run: "-".to_owned(),
            what: "-".to_owned(),
            exit: Exit::DONE,
            json: json!({ "signal": signal, "request": served.request }),
        },
    }
}

fn people(lines: &[Line]) -> String {
    if lines.is_empty() {
        return format!("nothing is asked for\n{}\n", paint(DIM, "cutter request list"));
    }
    let row = |line: &Line| {
        let style = if line.exit == Exit::DONE { GOOD } else { BAD };
        vec![line.request.clone(), line.status.clone(), line.run.clone(), paint(style, &line.what)]
    };
    table(&["request", "status", "run", "stands at"], lines.iter().map(row).collect())
}
