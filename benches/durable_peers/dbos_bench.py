"""The other side of `durable` in Python: eleven steps that do nothing, as a workflow of dbos. Reads one command a line
(`alone N`, `eight N`, `approve N`) and answers each with the microseconds of every run, or of the whole, on a line."""

import os
import sys
import threading
import time

from dbos import DBOS

BEFORE, BEHIND = 9, 2
# Its own name for the psycopg driver.
URL = os.environ["PEER_URL"].replace("postgresql://", "postgresql+psycopg://", 1)
DBOS(config={"name": "durable-peer", "system_database_url": URL, "log_level": "ERROR", "sys_db_pool_size": 20})


@DBOS.step()
def no_op(n: int) -> int:
    return n


@DBOS.workflow()
def eleven(_: int) -> int:
    return sum(no_op(n) for n in range(BEFORE + BEHIND))


@DBOS.workflow()
def gated(_: int) -> int:
    before = sum(no_op(n) for n in range(BEFORE))
    assert DBOS.recv(timeout_seconds=60) == "approve"
    return before + sum(no_op(n) for n in range(BEHIND))


def alone(count: int) -> list[float]:
    times = []
    for n in range(count):
        began = time.perf_counter()
        assert eleven(n) == 55
        times.append(time.perf_counter() - began)
    return times


def eight(count: int) -> list[float]:
    threads = [threading.Thread(target=alone, args=(count // 8,)) for _ in range(8)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [time.perf_counter() - began]


def approve(count: int) -> list[float]:
    times = []
    for n in range(count):
        handle = DBOS.start_workflow(gated, n)
        time.sleep(0.1)
        began = time.perf_counter()
        DBOS.send(handle.get_workflow_id(), "approve")
        assert handle.get_result() == 37
        times.append(time.perf_counter() - began)
    return times


def main() -> None:
    DBOS.launch()
    print("ready", flush=True)
    for line in sys.stdin:
        what, count = line.split()
        times = {"alone": alone, "eight": eight, "approve": approve}[what](int(count))
        print(" ".join(str(round(1e6 * t)) for t in times), flush=True)
    DBOS.destroy()


main()
