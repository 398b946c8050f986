# pgqueuer: N jobs enqueued in batches of 1,000, then worked off by W processes in drain mode, batches of 500, on the
# fastest event loop that it installs.
import asyncio
import multiprocessing
import os
import sys
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

PAIRS = dict(part.split("=", 1) for part in os.environ["PEER_DSN"].split(" "))


def connect():
    return asyncpg.connect(
        host=PAIRS["host"], port=int(PAIRS["port"]), user=PAIRS["user"], password=PAIRS["password"], database=PAIRS["dbname"]
    )


async def fill(items):
    connection = await connect()
    queries = Queries(AsyncpgDriver(connection))
    try:
        await queries.uninstall()
    except Exception:
        pass
    await queries.install()
    began = time.perf_counter()
    for at in range(0, items, 1000):
        numbers = range(at, min(at + 1000, items))
        payloads = [str(n).encode() for n in numbers]
        await queries.enqueue(["job"] * len(payloads), payloads, [0] * len(payloads))
    filled = time.perf_counter() - began
    await connection.close()
    return filled


async def work(go, ready):
    connection = await connect()
    queuer = PgQueuer(AsyncpgDriver(connection))
    done = []

    @queuer.entrypoint("job")
    async def job(item):
        done.append(int(item.payload))

    ready.put(True)
    await asyncio.to_thread(go.wait)
    await queuer.run(batch_size=500, mode=QueueExecutionMode.drain)
    return done


def worker(go, ready, out):
    out.put(uvloop.run(work(go, ready)))


def main():
    items, workers = int(sys.argv[1]), int(sys.argv[2])
    filled = uvloop.run(fill(items))
    context = multiprocessing.get_context("spawn")
    go, ready, out = context.Event(), context.Queue(), context.Queue()
    processes = [context.Process(target=worker, args=(go, ready, out)) for _ in range(workers)]
    for process in processes:
        process.start()
    for _ in processes:
        ready.get()
    began = time.perf_counter()
    go.set()
    done = [number for _ in processes for number in out.get()]
    drained = time.perf_counter() - began
    for process in processes:
        process.join()
    good = len(done) == items and len(set(done)) == items
    check = "nothing lost, nothing doubled" if good else f"LOST OR DOUBLED: {len(done)}"
    print(
        f"pgqueuer: {items} items, {workers} workers: enqueue {items / filled:.0f}/s, drain {items / drained:.0f}/s, "
        f"whole {items / (filled + drained):.0f}/s, {check}"
    )


if __name__ == "__main__":
    main()
