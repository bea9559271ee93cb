"""Algorithms on a small published log, to four decimals: what they learn today is what they learned yesterday.

XPSQL_DATA names the folder that benchmarks/real_logs.py describes; without it nothing runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import xpsql
from benchmarks.real_logs import criteo
from xpsql.platform.progress import SilentReporter

DATA = os.environ.get("XPSQL_DATA")

# Of one pass with the defaults: logloss and AUC of examples, each scored before it was learned from.
GOLDEN = {
    "xftrl": (0.4743, 0.7068),
    "fm": (0.4745, 0.7065),
    "ffm": (0.4744, 0.7068),
    "xnn": (0.4745, 0.7065),
    "logistic_regression": (0.4767, 0.7051),
    "owlqn": (0.3108, 0.9425),
    "wide_deep": (0.4745, 0.7065),
    "deepfm": (0.4754, 0.7057),
    "dcn": (0.4750, 0.7064),
    "svm": (0.4892, 0.6717),
    "xsvd (user = (C1, C2), item = (C3, C4))": (0.4744, 0.7067),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if DATA is None:
        pytest.skip("XPSQL_DATA is not set")
    path = tmp_path_factory.mktemp("log") / "train.parquet"
    pq.write_table(criteo(Path(DATA)).train, path)
    return path


@pytest.mark.parametrize("algorithm", GOLDEN)
def test_one_pass_gives_the_pinned_metrics(path: Path, tmp_path: Path, algorithm: str) -> None:
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        (row,) = session.sql(f"TRAIN MODEL m USING {algorithm} AS SELECT * FROM parquet.`{path}`").arrow().to_pylist()
    assert (row["logloss"], row["auc"]) == pytest.approx(GOLDEN[algorithm], abs=1e-4)
