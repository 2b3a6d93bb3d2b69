"""PgQueuer: runs as many jobs as each line says, whose entry point does nothing, and says how many a second.

Runs in an environment of its own, with the driver, the event loop and the batch with which it is quickest. Its first
argument: JSON with `database` (Django's settings of a database). From the first call to the moment at which no job is
left in its table; what it fetched before the first call is not counted against it.
"""

import asyncio
import json
import sys
import time
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

SCHEMA = "pgqueuer"
BATCH = 500
PAYLOAD = json.dumps({"number": 1, "text": "x" * 176}).encode()
DATABASE = json.loads(sys.argv[1])["database"]
ADDRESS = {
    "database": DATABASE["NAME"],
    "user": DATABASE["USER"] or None,
    "password": DATABASE["PASSWORD"] or None,
    "host": DATABASE["HOST"] or None,
    "port": DATABASE["PORT"] or None,
}


async def measure(pool: Any, jobs: int) -> float:
    queries = Queries(AsyncpgPoolDriver(pool))
    for start in range(0, jobs, 1_000):
        some = min(1_000, jobs - start)
        await queries.enqueue(["nothing"] * some, [PAYLOAD] * some, [0] * some)
    await pool.execute("VACUUM ANALYZE pgqueuer")
    worker = PgQueuer(AsyncpgPoolDriver(pool))
    started, left, done = 0.0, jobs, asyncio.Event()

    @worker.entrypoint("nothing")
    async def nothing(_job: object) -> None:
        nonlocal started, left
        started = started or time.perf_counter()
        left -= 1
        if not left:
            done.set()

    running = asyncio.create_task(worker.run(batch_size=BATCH))
    await done.wait()
    while await pool.fetchval("SELECT count(*) FROM pgqueuer"):
        await asyncio.sleep(0.005)
    seconds = time.perf_counter() - started
    worker.shutdown.set()
    await running
    return jobs / seconds


async def main() -> None:
    settings = {"search_path": SCHEMA}
    async with asyncpg.create_pool(**ADDRESS, min_size=4, max_size=10, server_settings=settings) as pool:
        await pool.execute(f"CREATE SCHEMA {SCHEMA}")
        await Queries(AsyncpgPoolDriver(pool)).install()
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(await measure(pool, int(line)), flush=True)  # noqa: T201 - this is its output


if __name__ == "__main__":
    uvloop.run(main())
