"""Made logs for USING auto: crosses planted among columns of noise, labels that are noise, and later rows for what is told."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

LATER, FEATURES = 20_000, 40
TRAIN = "TRAIN OR REPLACE MODEL {} USING {} LABEL label {} AS SELECT * FROM parquet.`{}/train.parquet`"
PREDICT = "SELECT * FROM ML.PREDICT(MODEL {}, (SELECT * FROM parquet.`{}/test.parquet`))"
TOLD = re.compile(r"auc ([\d.]+) \+- ([\d.e-]+) on the telling half")
Scores = NDArray[np.float32]


class Search(NamedTuple):
    """What a search found.

    Attributes:
        told, half: the AUC that its note tells, and half of the interval of 95 %.
        seconds: of the CPU, from the statement to its version.
        scores: what the version predicts of the test rows.
    """

    statement: str
    told: float
    half: float
    seconds: float
    scores: Scores
    trials: list[dict[str, Any]]


def searched(folder: Path, using: str, budget: str) -> Search:
    """Search `train.parquet` of a folder by CPU seconds, and predict the rows of `test.parquet`."""
    import xpsql
    from xpsql.platform.progress import SilentReporter
    from xpsql.platform.training.auto import clock

    class Notes(SilentReporter):
        def note(self, text: str) -> None:
            said.append(text)

    said: list[str] = []
    clock.now = time.process_time
    with xpsql.connect(folder / "warehouse", "duckdb", Notes()) as session:
        began = time.process_time()
        session.sql(TRAIN.format("found", using, f"BUDGET {budget} WITH (workers = 1)", folder))
        seconds = time.process_time() - began
        (statement,) = session.sql("SHOW TRAIN MODEL found").arrow()["statement"].to_pylist()
        trials = session.sql("SELECT * FROM ML.TRIAL_INFO(MODEL found) ORDER BY trial_id").arrow().to_pylist()
        scores = predicted(session, "found", folder)
    (told,) = (match for text in said if (match := TOLD.search(text)))
    return Search(str(statement), float(told[1]), float(told[2]), seconds, scores, trials)


def predicted(session: Any, model: str, folder: Path) -> Scores:
    table = session.sql(PREDICT.format(model, folder)).arrow()
    return np.asarray(table["predicted_label"].to_numpy(), np.float32)


def made(rows: int, seed: int, pairs: int, width: int = FEATURES) -> pa.Table:
    """Return a log of slots with 10 to 10,000 values: the first pairs tell the label together, and the next slot alone."""
    random = np.random.default_rng(seed)
    codes = [random.integers(0, size, rows) for size in np.geomspace(10, 10_000, width).astype(int)]
    score = -0.5 + 0.7 * bool(pairs) * random.normal(size=codes[2 * pairs].max() + 1)[codes[2 * pairs]]
    for one, other in zip(codes[: 2 * pairs : 2], codes[1 : 2 * pairs : 2], strict=True):
        score += 1.2 * random.normal(size=(one.max() + 1, other.max() + 1))[one, other]
    times = pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC"))
    label = (random.random(rows) < 1 / (1 + np.exp(-score))).astype(np.int32)
    return pa.table({"label": label, "ts": times, **{f"s{n}": one.astype("U") for n, one in enumerate(codes)}})


def on_made(folder: str, seed: int, rows: int, pairs: int, width: int, budget: str) -> Iterator[dict[str, Any]]:
    """Search a made log; yield the statement, the AUC told with half its interval, that of later rows, and the seconds."""
    from benchmarks.peers import auc

    table = made(rows + LATER, seed, pairs, width)
    for part, piece in zip(("train", "test"), (table.slice(0, rows), table.slice(rows)), strict=True):
        pq.write_table(piece, Path(folder) / f"{part}.parquet", row_group_size=1 << 16)
    found = searched(Path(folder), "auto (algorithms = (fm, xnn))", budget)
    later = auc(table["label"].to_numpy()[rows:] == 1, found.scores)
    yield {"statement": found.statement, "told": found.told, "half": found.half, "later": later, "seconds": found.seconds}
