// graphile-worker: N jobs added in batches of 1,000, then worked off by W processes, C jobs at a time in each. "batched" is
// its best mode (local queue, batched completions), "default" has neither.
import { fork } from "node:child_process";
import pg from "pg";
import { makeWorkerUtils, run } from "graphile-worker";

const [, , mode, concurrency, items, workers, role] = process.argv;
const pairs = Object.fromEntries(process.env.PEER_DSN.split(" ").map((part) => part.split("=")));
const config = { host: pairs.host, port: Number(pairs.port), user: pairs.user, password: pairs.password, database: pairs.dbname };
const silent = new (await import("graphile-worker")).Logger(() => () => {});
const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

if (role === "child") {
  const done = [];
  const pool = new pg.Pool({ ...config, max: Number(concurrency) + 2 });
  const jobs = { job: async (payload) => { done.push(payload.n); } };
  await pool.query("select 1");
  process.on("message", async (message) => {
    if (message === "go") {
      const preset = { worker: { concurrentJobs: Number(concurrency), ...(mode === "batched" ? batched : {}) } };
      globalThis.runner = await run({ pgPool: pool, taskList: jobs, logger: silent, noHandleSignals: true, preset });
    } else if (message === "count") {
      process.send({ count: done.length });
    } else {
      await globalThis.runner.stop();
      process.send({ done }, () => process.exit(0));
    }
  });
  process.send("ready");
} else {
  const pool = new pg.Pool({ ...config, max: 2 });
  await pool.query("drop schema if exists graphile_worker cascade");
  const utils = await makeWorkerUtils({ pgPool: pool, logger: silent });
  await utils.migrate();
  const children = Array.from({ length: Number(workers) }, () => fork(process.argv[1], [mode, concurrency, items, workers, "child"]));
  await Promise.all(children.map((child) => new Promise((ready) => child.once("message", ready))));
  const n = Number(items);
  const fill = performance.now();
  for (let at = 0; at < n; at += 1000) {
    const specs = [];
    for (let i = at; i < Math.min(at + 1000, n); i++) specs.push({ identifier: "job", payload: { n: i } });
    await utils.addJobs(specs);
  }
  const filled = performance.now() - fill;
  const drain = performance.now();
  for (const child of children) child.send("go");
  for (;;) {
    const left = await pool.query("select exists (select from graphile_worker._private_jobs) as some");
    if (!left.rows[0].some) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const drained = performance.now() - drain;
  const lists = await Promise.all(children.map((child) => new Promise((resolve) => {
    child.once("message", (message) => resolve(message.done));
    child.send("stop");
  })));
  const all = lists.flat();
  const check = all.length === n && new Set(all).size === n ? "nothing lost, nothing doubled" : `LOST OR DOUBLED: ${all.length}`;
  const rate = (time) => Math.round((n * 1000) / time);
  console.log(`graphile-worker ${mode} ${concurrency}: ${n} items, ${workers} workers: enqueue ${rate(filled)}/s, drain ${rate(drained)}/s, whole ${rate(filled + drained)}/s, ${check}`);
  await pool.end();
  process.exit(0);
}
