"""A log whose counts are known, and what a model trained from it must hold whatever happened on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import xpsql

ROWS_PER_USER = 10
SCHEMA = "label INT, user BIGINT, item STRING"
"""The columns of the log, as a topic has them."""


def learner(sync: str) -> str:
    """Return the algorithm that is disturbed: with hybrid one that has dense parameters."""
    return "xnn (dim = 2, hidden = (4))" if sync == "hybrid" else "xftrl"


def write_log(path: Path, rows: int) -> Path:
    """Write the log, the same each time, unless it is there: a training that is resumed needs its files as they were."""
    if path.exists():
        return path
    draw = np.random.default_rng(0)
    user = draw.integers(0, rows // ROWS_PER_USER, rows)
    label = (draw.random(rows) < 0.2 + 0.3 * (user % 3 == 0)).astype(np.int32)
    table = pa.table({"label": label, "user": user, "item": (user % 17).astype(str)})
    pq.write_table(table, path, row_group_size=max(rows // 8, 1))
    return path


def mistakes(session: xpsql.Session, log: Path, passes: int, copies: int = 1) -> list[str]:
    """Return what is wrong with the counts of m; nothing where all is as in so many copies of the data, times the passes."""
    data, wrong = pa.concat_tables([pq.read_table(log)] * copies), []
    rows = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow()
    if "table" in rows.column_names:
        rows = rows.filter(pc.equal(rows["table"], "weights"))
    for slot in ("user", "item"):
        grouped = data.group_by(slot).aggregate([("label", "count"), ("label", "sum")])
        times = (passes * np.asarray(grouped[f"label_{what}"]) for what in ("count", "sum"))
        want = sorted(zip(*(numbers.tolist() for numbers in times), strict=True))
        found = rows.filter(pc.equal(rows["slot"], slot))
        for shown in ("count", "shows"):
            have = sorted(zip(found[shown].to_pylist(), found["clicks"].to_pylist(), strict=True))
            if have != want:
                wrong.append(f"{slot}: {shown} and clicks differ; {sum(n for n, _ in have)}, not {sum(n for n, _ in want)}")
    manifest = session.models.version("m").manifest
    if (manifest.learned.examples, manifest.metrics["examples"]) != (passes * len(data), len(data)):
        wrong.append(
            f"{manifest.learned.examples} examples are counted, not {passes * len(data)}; first pass: {manifest.metrics}"
        )
    return wrong


def weights(session: xpsql.Session) -> pa.Table:
    """Return the rows of the model m, ordered by key."""
    query = "SELECT * EXCEPT (utility, information, last_seen) FROM ML.WEIGHTS(MODEL m) ORDER BY key"
    return session.sql(query).arrow()
