"""A module of PyTorch in a training: the same on both engines, with several workers, and what it raises at its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.algorithms.bridges.test_network import GALLERY, log
from xpsql.platform.progress import SilentReporter

torch = pytest.importorskip("torch")

USING = (
    f"USING network (file = '{GALLERY / 'dcn_torch.py'}', class = 'Dcn', hidden = (16), dim = 4, dropout = 0.1, norm = true)"
)


def learned(engine: str | SparkSession, folder: Path, workers: int) -> list[float]:
    with xpsql.connect(folder, engine, SilentReporter()) as session:
        pq.write_table(log(), folder.with_suffix(".parquet"))
        source = f"parquet.`{folder.with_suffix('.parquet')}`"
        session.sql(
            f"TRAIN MODEL m {USING} LABEL click IGNORE (buy) WITH (workers = {workers}, passes = 2, batch_size = 100) AS "
            f"SELECT * FROM {source}"
        )
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM {source}")
        found = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL m, (SELECT * FROM {source})) ORDER BY price").arrow()
        values: list[float] = found["predicted_click"].to_pylist()
        return values


def test_both_engines_give_the_same_model(spark: SparkSession, tmp_path: Path) -> None:
    here, there = learned("duckdb", tmp_path / "a", 1), learned(spark, tmp_path / "b", 1)
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert np.std(here) > 0


def test_workers_share_a_module_without_meeting(tmp_path: Path) -> None:
    assert np.isfinite(learned("duckdb", tmp_path / "a", 3)).all()


def test_no_graph_is_made_of_a_module(tmp_path: Path) -> None:
    learned("duckdb", tmp_path / "a", 1)
    with (
        xpsql.connect(tmp_path / "a", "duckdb", SilentReporter()) as session,
        pytest.raises(xpsql.StatementError, match=r"FORMAT onnx needs functions of JAX.* runs in PyTorch"),
    ):
        session.sql(f"EXPORT MODEL m TO '{tmp_path}/out' FORMAT onnx")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("self.out(x.slots)", r"net\.py, line 12: RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("self.out(x.flat), x.wide", "must return a tensor, got tuple"),
        ("self.out(x.flat).expand(-1, 3)", r"must return float\[batch\] or float\[batch, 1\], got float32\[3, 3\]"),
        ("x['itm']", r"net\.py, line 12: KeyError: no slot or dense input 'itm'"),
    ],
)
def test_a_fault_is_reported_at_its_line_before_anything_starts(
    session: xpsql.Session, tmp_path: Path, forward: str, message: str
) -> None:
    text = f"""
from torch import nn


class Ranker(nn.Module):
    def __init__(self, features, *, double: bool = False):
        super().__init__()
        self.out = nn.Linear(features.width, 1)
        self.out = self.out.double() if double else self.out

    def forward(self, x):
        return {forward}
"""
    path = tmp_path / "net.py"
    path.write_text(text, encoding="utf-8")
    using = f"USING network (file = '{path}', class = 'Ranker')"
    session.sql("CREATE TABLE log AS SELECT 'a' AS item, 1.5 AS price, 1 AS click")
    with pytest.raises(xpsql.StatementError, match=message):
        session.sql(f"TRAIN MODEL m {using} LABEL click AS SELECT * FROM log")
    with pytest.raises(xpsql.StatementError, match=r"parameter out\.weight must be float32, got torch\.float64"):
        session.sql(f"TRAIN MODEL m {using.replace(')', ', double = true)')} LABEL click AS SELECT * FROM log")
