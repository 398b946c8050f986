//! The other side of `durable`: the same eleven steps that do nothing, as a workflow of `dbos`. Reads one command a line
//! (`alone N`, `eight N`, `approve N`) and answers each with the microseconds of every run, or of the whole, on a line.

use std::env;
use std::io::{BufRead as _, stdin};
use std::time::{Duration, Instant};

use dbos::{Config, DBOS, Error, WorkflowRef, recv, step};

type Workflow = WorkflowRef<u32, u32>;

/// Steps before the second gate, and behind it.
const BEFORE: u32 = 9;
const BEHIND: u32 = 2;

async fn no_ops(count: u32) -> Result<u32, Error> {
    let mut sum = 0;
    for n in 0..count {
        sum += step("no_op", || async move { Ok::<u32, Error>(n) }).await?;
    }
    Ok(sum)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = env::var("PEER_URL").expect("PEER_URL names the database");
    let version = Some("1".to_owned());
    let config = Config { max_connections: 20, app_version: version, ..Config::new("durable-peer", url) };
    let dbos = DBOS::new(config);
    let eleven = dbos.register_workflow("eleven", |_: u32| no_ops(BEFORE + BEHIND))?;
    let gated = dbos.register_workflow("gated", |_: u32| async {
        let before = no_ops(BEFORE).await?;
        let message: Option<String> = recv(None, Duration::from_secs(60)).await?;
        assert_eq!(message.as_deref(), Some("approve"), "no message within a minute");
        Ok::<u32, Error>(before + no_ops(BEHIND).await?)
    })?;
    dbos.launch().await?;
    println!("ready");
    for line in stdin().lock().lines() {
        let line = line.expect("commands are text");
        let (what, count) = line.split_once(' ').expect("a command and a number");
        let count: u32 = count.parse().expect("a number");
        let micros = match what {
            "alone" => alone(&eleven, count).await?,
            "eight" => vec![eight(&eleven, count).await?],
            "approve" => approve(&dbos, &gated, count).await?,
            other => panic!("{other}: no such command"),
        };
        let words: Vec<String> = micros.iter().map(|time| time.as_micros().to_string()).collect();
        println!("{}", words.join(" "));
    }
    dbos.shutdown().await;
    Ok(())
}

async fn alone(workflow: &Workflow, count: u32) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    for n in 0..count {
        let began = Instant::now();
        assert_eq!(workflow.run(n).await?, 55);
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Eight tasks, `count` runs in all.
async fn eight(workflow: &Workflow, count: u32) -> Result<Duration, Error> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let workflow = workflow.clone();
            tokio::spawn(async move {
                for n in 0..count / 8 {
                    assert_eq!(workflow.run(n).await?, 55);
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task ends")?;
    }
    Ok(began.elapsed())
}

/// From the message sent to the result in hand; the workflow waits already.
async fn approve(dbos: &DBOS, workflow: &Workflow, count: u32) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    for n in 0..count {
        let handle = workflow.start(n).await?;
        tokio::time::sleep(Duration::from_millis(60)).await;
        let id = handle.workflow_id().to_owned();
        let began = Instant::now();
        dbos.send(&id, &"approve").await?;
        assert_eq!(handle.result().await?, 36 + 1);
        times.push(began.elapsed());
    }
    Ok(times)
}
