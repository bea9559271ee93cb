"""Writes models, exports and a checkpoint as this xpsql does: `python -m tests.warehouse.formats.write /tmp/formats`.

What each format wrote is kept beside this file, as bytes, and read by all that come later; tests put the folder that it was
copied into in the place of the one that it names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training import monitor

ROWS = 120
MODELS = {
    "counted": "USING xftrl OPERATORS (admit (min_count = 3)) WITH (batch_size = 20)",
    "pairs": "USING fm (dim = 2) WITH (batch_size = 20)",
    "network": "USING xnn (dim = 2, hidden = (2)) WITH (batch_size = 20)",
    "trees": "USING xgboost (rounds = 2, max_depth = 2)",
}
STOPPED = "TRAIN MODEL stopped USING xftrl WITH (batch_size = 10, passes = 4)"


def log() -> pa.Table:
    at = np.arange(ROWS)
    user, item = at % 7, at % 5
    return pa.table({"label": ((user + item) % 3 == 0).astype(np.int32), "user": [f"u{u}" for u in user], "item": item})


def predictions(session: xpsql.Session, model: str, source: Path) -> list[float]:
    """Return what a model says of the log, by user and item."""
    query = f"SELECT DISTINCT user, item FROM parquet.`{source}`"
    found = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL {model}, ({query})) ORDER BY user, item").arrow()
    return [float(value) for value in found["predicted_label"].to_pylist()]


class Stopping(SilentReporter):
    """Interrupts a training, which takes a last checkpoint."""

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        raise KeyboardInterrupt


def main(folder: Path) -> None:
    """Write the models into FOLDER/warehouse, their exports beside it, and what they predict into FOLDER/predictions.json."""
    source, warehouse = folder / "log.parquet", folder / "warehouse"
    pq.write_table(log(), source, row_group_size=60)
    query = f"SELECT label, user, item FROM parquet.`{source}`"
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        for name, uses in MODELS.items():
            session.sql(f"TRAIN MODEL {name} {uses} AS {query}")
            session.sql(f"EXPORT MODEL {name} TO '{folder}/exports/{name}' FORMAT parquet")
        reported = {name: predictions(session, name, source) for name in MODELS}
    (folder / "predictions.json").write_text(json.dumps(reported, indent=1) + "\n", encoding="utf-8")
    monitor.TELL_SECONDS = 0.0
    with xpsql.connect(warehouse, "duckdb", Stopping()) as session:
        try:
            session.sql(f"{STOPPED} AS {query}")
        except KeyboardInterrupt:
            return
    raise RuntimeError("the training was not stopped")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
