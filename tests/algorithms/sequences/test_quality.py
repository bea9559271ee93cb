"""The order of what was taken is found, on made and on published logs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from benchmarks.published import groceries
from benchmarks.retrieval import users_of
from benchmarks.sequence_logs import ordered_log
from tests.cases import lengthy
from tests.training.log import embedded, session, write

__all__ = ["session"]

DATA, USERS = os.environ.get("XPSQL_DATA"), 4_000
ITEMS = "ITEMS (SELECT DISTINCT item FROM parquet.`{log}`)"
RECALL = f"SELECT recall FROM ML.EVALUATE(MODEL {{model}}, {{rows}}, {ITEMS}, 10, EXCLUDE {{had}})"


@lengthy
@embedded
@pytest.mark.parametrize("encoder", ["sasrec", "hstu"])
def test_an_order_is_found_in_longer_sequences_than_those_learned_from(
    session: xpsql.Session, tmp_path: Path, encoder: str
) -> None:
    path = tmp_path / "log.parquet"
    best = ordered_log(path, 2_000, 12, 6)
    session.sql(
        f"TRAIN MODEL s USING sequence (dim = 32, length = 16, dropout = 0, encoder = '{encoder}') GROUP user TIME ts "
        f"WITH (passes = 8, workers = 1) AS SELECT * FROM parquet.`{path}` WHERE ts < 11"
    )
    items = ITEMS.format(log=path)
    found = session.sql(f"SELECT recall FROM ML.EVALUATE(MODEL s, (SELECT * FROM parquet.`{path}`), {items}, 1)")
    assert float(found.arrow()["recall"][0].as_py()) > 0.9 * best


@embedded
@pytest.mark.skipif(DATA is None, reason="XPSQL_DATA is not set")
def test_the_order_of_groceries_finds_more_than_two_towers_and_popularity(session: xpsql.Session, tmp_path: Path) -> None:
    known = users_of(groceries(Path(str(DATA))))
    histories, last = known.histories[:USERS], known.last[:USERS].tolist()
    events = [(user, n, item) for user, own in enumerate(histories) for n, item in enumerate(own)]
    ends = [(user, len(histories[user]), item) for user, item in enumerate(last)]
    names = ("user", "ts", "item")
    log = write(
        pa.table(dict(zip(names, map(list, zip(*events, strict=True)), strict=True))), tmp_path / "log.parquet", 100_000
    )
    whole = [*events, *ends]
    every = write(
        pa.table(dict(zip(names, map(list, zip(*whole, strict=True)), strict=True))), tmp_path / "all.parquet", 100_000
    )
    settings = "WITH (passes = 5, workers = 1{})"
    session.sql(
        "TRAIN MODEL s USING sequence (length = 64) GROUP user TIME ts "
        f"{settings.format('')} AS SELECT user, ts, item FROM parquet.`{log}`"
    )
    before = [(own[:n], item) for own in histories for n, item in enumerate(own) if n]
    taken = pa.table({"history": [one for one, _ in before], "item": [item for _, item in before]})
    rows = write(taken, tmp_path / "before.parquet", 100_000)
    tests = write(pa.table({"history": histories, "item": last}), tmp_path / "last.parquet", 100_000)
    session.sql(
        "TRAIN MODEL t USING two_tower (query = (history), item = (item), negatives = 500) "
        f"{settings.format(', share = (history AS item)')} AS SELECT * FROM parquet.`{rows}`"
    )

    def recall(model: str, path: Path, had: str) -> float:
        found = session.sql(RECALL.format(model=model, rows=f"(SELECT * FROM parquet.`{path}`)", log=log, had=had))
        return float(found.arrow()["recall"][0].as_py())

    by_count = np.argsort(-np.bincount([item for _, _, item in events]), kind="stable").tolist()
    best = [[item for item in by_count[:500] if item not in own][:10] for own in histories]
    popular = np.mean([item in own for item, own in zip(last, best, strict=True)])
    ours, theirs = recall("s", Path(every), "item"), recall("t", Path(tests), "history")
    print(f"recall@10: sequence {ours:.4f}, two_tower {theirs:.4f}, popularity {popular:.4f}")
    assert ours > max(1.5 * popular, 0.95 * theirs)
