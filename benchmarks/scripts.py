"""The statements and commands that are measured."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import Measured, alternate, measure

TRAIN = "TRAIN OR REPLACE MODEL ctr USING xftrl IGNORE (ts) AS SELECT * FROM parquet.`{data}`"
ALGORITHM = "TRAIN OR REPLACE MODEL ctr USING {algorithm} IGNORE (ts) AS SELECT * FROM parquet.`{data}`"
CROSSES = ", ".join(f"cross(C{i}, C{j}) AS x{i}_{j}" for i, j in islice(combinations(range(1, 27), 2), 61))
CROSSED = f"TRAIN OR REPLACE MODEL ctr USING xnn IGNORE (ts) AS SELECT *, {CROSSES} FROM parquet.`{{data}}`"
LIVING = "TRAIN OR REPLACE MODEL ctr USING xftrl TIME ts {clauses} WITH (workers = 1) AS SELECT * FROM parquet.`{data}`"
LONG = (
    "TRAIN OR REPLACE MODEL ctr USING xftrl IGNORE (ts) WITH (workers = 2, passes = {passes}, checkpoint_seconds = {seconds}) "
    "AS SELECT * FROM parquet.`{data}`"
)
LIVES = {
    "plain": "",
    "admit": "OPERATORS (admit (min_count = 5))",
    "admit, expire": "OPERATORS (admit (min_count = 5), expire (after = '30 days'))",
    "recent, admit, expire twice": (
        "OPERATORS (recent (half_life = '7 days'), admit (min_count = 5), expire (after = '30 days'), expire (utility < 0.001))"
    ),
    "evaluate": "EVALUATE EVERY 100 BATCHES ON 10 BATCHES",
}
EVALUATE = "SELECT auc, pcopc FROM ML.EVALUATE(MODEL ctr, (SELECT * FROM parquet.`{data}`))"
PREDICT = "SELECT avg(predicted_label) AS mean FROM ML.PREDICT(MODEL ctr, (SELECT * FROM parquet.`{data}`))"


class Stages(NamedTuple):
    """Where the seconds of a process went; see benchmarks.stages."""

    open: float
    start_up: float
    work: float
    save: float
    rest: float


class Xpsql(NamedTuple):
    """The command `xpsql` on a warehouse; scripts are written to `folder`."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def train(self, data: Path) -> Measured:
        """Train as a process of its own, from Parquet to the committed model."""
        return self.run(TRAIN.format(data=data))

    def run(self, statement: str) -> Measured:
        """Run a statement as a process of its own."""
        return measure([*self.command("run"), self.script(statement), "--quiet"])

    def alternate(self, statements: Sequence[tuple[int, str]]) -> list[Measured]:
        """Run statements in turns, each on so many cores and a warehouse of its own; see process.alternate."""
        folders = [Xpsql(self.folder / f"turns{number}") for number in range(len(statements))]
        return alternate(
            [(count, [*own.command("sql"), text, "--quiet"]) for own, (count, text) in zip(folders, statements, strict=True)]
        )

    def evaluate(self, data: Path) -> float:
        """Return the model's AUC."""
        return self.qualities(data)["auc"]

    def qualities(self, data: Path) -> dict[str, float]:
        """Return the model's AUC and PCOPC."""
        done = measure([*self.command("sql"), EVALUATE.format(data=data), "--format", "json", "--quiet"])
        return dict(json.loads(done.output))

    def stages(self, statement: str) -> Stages:
        """Run a statement and return its stages."""
        script = self.script(statement)
        began = str(time.monotonic())
        done = measure([sys.executable, "-m", "benchmarks.stages", script, self.warehouse, began])
        return Stages(**json.loads(done.output))

    def select_one(self) -> Measured:
        return measure([*self.command("sql"), "SELECT 1"])

    def command(self, name: str) -> list[str]:
        return [sys.executable, "-m", "xpsql", name, "--warehouse", str(self.warehouse)]

    def script(self, text: str) -> Path:
        path = self.folder / "script.sql"
        path.write_text(text, encoding="utf-8")
        return path
