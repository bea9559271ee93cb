"""A use of every algorithm on the log of tests/training/log.py, and what a model has learned, to compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import xpsql
from xpsql.algorithms import ALGORITHMS
from xpsql.platform.registry import EDGES

NETWORK = Path(__file__).parent / "bridges" / "plain.py"


class Use(NamedTuple):
    """The options of an algorithm, the columns that it learns from, and clauses that it needs."""

    options: str = ""
    columns: str = "label, user, item, price, tags, vector"
    clauses: str = ""

    def train(self, model: str, algorithm: str, path: Path, settings: str | None = None) -> str:
        """Return a statement, by default for one worker, and one shard where there are shards."""
        usual = "workers = 1" if algorithm in ("owlqn", "xgboost") else "workers = 1, shards = 1"
        using = f"{algorithm} {self.options} {self.clauses}"
        return f"TRAIN MODEL {model} USING {using} WITH ({settings or usual}) AS {self.query(path)}"

    def query(self, path: Path) -> str:
        return f"SELECT {self.columns} FROM parquet.`{path}`"


SPECIAL = {
    "multi_task": Use("(base = mmoe, experts = 2, gate_dropout = 0)"),
    "din": Use("(target = (item), history = (tags), dim = 4, hidden = (8), attention = (8))"),
    "network": Use(f"(file = '{NETWORK}', dim = 4)"),
    "dien": Use("(auxiliary = 0, target = (item), history = (tags), dim = 4, hidden = (8), attention = (8))"),
    "slrm": Use(
        "(negatives = 3, l1 = 0.01)",
        "1 AS label, user AS item, concat(tags, tags, tags, tags, tags, tags, tags, tags, tags) AS history",
    ),
    "two_tower": Use(
        "(dim = 8, item_dropout = 0, query = (user, tags), item = (item, price, vector))", "user, item, price, tags, vector"
    ),
    "tdm": Use("(dim = 4, history = (tags), hidden = (4), beam = 4)", "user, item, price, tags, vector"),
    "sequence": Use(
        "(dim = 8, dropout = 0, hidden = (8), length = 16) LABEL label GROUP user TIME ts",
        "label, user, CAST(coalesce(price, 0) * 100 AS BIGINT) AS ts, item, tags",
    ),
    "word2vec": Use("(dim = 8)", "tags"),
    "line": Use("(dim = 8)", "user, item", "SOURCE user TARGET item"),
    "xgboost": Use("(rounds = 10)", "label, user, item, price, vector"),
    "xsvd": Use("(user = (user, price), feedback = (tags), negatives = 2)"),
}
USES = {part.name: SPECIAL.get(part.name, Use()) for part in ALGORITHMS if part.takes != EDGES}
"""All but vertex programs, which tests/graphs has."""


def learned(session: xpsql.Session, model: str) -> pa.Table:
    """Return a model's rows, by table and key."""
    return session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model})").arrow()


def rows(session: xpsql.Session, model: str) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Return what a model counted of each feature, and its weights, in order of table and key."""
    table = learned(session, model)
    names = [name for name in ("table", "key", "slot", "count", "updates", "shows", "clicks") if name in table.schema.names]
    table = table.sort_by([(name, "ascending") for name in names[: names.index("key") + 1]])
    vectors = [name for name in ("weight", "weights") if name in table.schema.names]
    weights = [np.concatenate([np.atleast_1d(value) for value in table[name].to_pylist()]) for name in vectors]
    return table.select(names).to_pylist(), np.concatenate(weights)
