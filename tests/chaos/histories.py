"""A history that is published again and again, whose process is killed: `python -m tests.chaos.histories FOLDER --times n`.

Events come in pieces: many tie, some are late, some lack the user, the time or the item. A process publishes the history every
second, and is killed with `kill -9` at moments drawn from the seed, once for each piece. In the end answers are compared for
each user at moments of all times: HISTORY over all events (batch), HISTORY of the history in SQL and the image of services
(online), and the definition, by plain Python over all events.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa

import xpsql
from xpsql.platform.histories.image import HistoryImage
from xpsql.platform.histories.stored import StoredHistories
from xpsql.platform.progress import SilentReporter

KEEP = 20
SECONDS = 300.0
PUBLISHING = "import sys, xpsql; xpsql.connect(sys.argv[1]).sql('REFRESH HISTORY clicks PUBLISH EVERY 1 SECOND')"
ONLINE = "SELECT who, at, HISTORY(clicks.item, who, at) AS h FROM asked"
BATCH = "SELECT who, at, HISTORY(e.item, {}) AS h FROM asked s HISTORY JOIN log e ON e.user = s.who AND e.ts < s.at"


def drawn(draw: np.random.Generator, count: int, first: int, last: int) -> pa.Table:
    """Return events of a stretch of time: every tenth may be of any time before, every thirtieth lacks something."""
    times = np.where(draw.random(count) < 0.1, draw.integers(0, last, count), draw.integers(first, last, count))
    columns = {
        "user": draw.integers(0, max(count // 50, 1), count),
        "ts": times,
        "item": draw.integers(0, 1000, count),
    }
    return pa.table({name: pa.array(values, mask=draw.random(count) < 1 / 30) for name, values in columns.items()})


def add(session: xpsql.Session, events: pa.Table) -> None:
    session.engine.register_rows("new", events)
    there = "log" in session.engine.relations()
    session.sql("INSERT INTO log SELECT * FROM new" if there else "CREATE TABLE log AS SELECT * FROM new")


def defined(events: pa.Table) -> dict[int, list[tuple[int, int]]]:
    """Return the events of each user in their order."""
    own: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for user, ts, item in zip(*(events.column(name).to_pylist() for name in ("user", "ts", "item")), strict=True):
        if user is not None and ts is not None and item is not None:
            own[user].append((ts, item))
    for events_of_user in own.values():
        events_of_user.sort()
    return own


def mistakes(session: xpsql.Session, events: pa.Table, last: int, moments: int) -> list[str]:
    """Compare the answers, and return what differs."""
    own, draw, found = defined(events), random.Random(1), []
    asked = [(user, at) for user in own for at in (last, *(draw.randrange(last) for _ in range(moments)))]
    wanted = {(user, at): [item for ts, item in own[user] if ts < at][-KEEP:] for user, at in asked}
    session.engine.register_rows("asked", pa.table(list(zip(*asked, strict=True)), names=["who", "at"]))
    for name, query in (("batch", BATCH.format(KEEP)), ("online", ONLINE)):
        rows = session.sql(query).arrow().to_pylist()
        if len(rows) != len(asked):
            found.append(f"{name}: {len(rows)} rows for {len(asked)}")
        found += [f"{name}: {row}" for row in rows if row["h"] != wanted[row["who"], row["at"]]]
    version = StoredHistories(session.models.warehouse).newest("clicks")
    assert version is not None
    image = HistoryImage(version.folder / "image", "ts", None)
    for user in own:
        if image.last(pa.array([user]), None, "item").to_pylist() != [item for _, item in own[user]][-KEEP:]:
            found.append(f"image: {user}")
    if version.rows != events.num_rows:
        found.append(f"{version.rows} events of {events.num_rows}")
    return found


def disturbed(folder: Path, count: int, pieces: int, seed: int, moments: int) -> list[str]:
    """Publish a history whose process is killed, and return what is wrong with it."""
    draw, kills = np.random.default_rng(seed), random.Random(seed)
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        tables = [drawn(draw, count // pieces, 100 * piece, 100 * piece + 150) for piece in range(pieces)]
        add(session, tables[0])
        session.sql(f"CREATE HISTORY clicks AS SELECT * FROM STREAM log PARTITION BY user ORDER BY ts KEEP LAST {KEEP}")
        for table in tables[1:]:
            with subprocess.Popen([sys.executable, "-c", PUBLISHING, str(folder)]) as process:
                add(session, table)
                time.sleep(kills.random() * 6)
                process.kill()
        publish_the_rest(session, folder)
        return mistakes(session, pa.concat_tables(tables), 100 * pieces + 150, moments)


def publish_the_rest(session: xpsql.Session, folder: Path) -> None:
    """Let a process publish until it is stopped."""
    with subprocess.Popen([sys.executable, "-c", PUBLISHING, str(folder)]) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while not StoredHistories(session.models.warehouse).published("clicks"):
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.1)
            session.sql("STOP HISTORY clicks")
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--events", type=int, default=1_000_000)
    given = parser.parse_args()
    seed = time.time_ns()
    print(f"seed {seed}", flush=True)
    found = disturbed(given.folder, given.events, given.times + 1, seed, 3)
    print(f"| history of {given.events:,} events: any | {given.times} | {len(found)} mistakes |", flush=True)
    if found:
        sys.exit("\n".join(found[:20]))


if __name__ == "__main__":
    main()
