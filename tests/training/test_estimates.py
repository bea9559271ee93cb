"""Estimates of what a training needs are about what it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.algorithms.uses import USES
from tests.cases import costly_after_first, lengthy
from tests.training.log import log, write
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import DataError
from xpsql.platform.input.encoder import Encoder
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training import estimates
from xpsql.platform.training.estimates import estimated_features
from xpsql.platform.training.recipe import algorithm_of, columns_from


@lengthy
@pytest.mark.parametrize("negatives", [0, 20])
def test_an_algorithm_of_pairs_is_estimated_by_pairs(tmp_path: Path, negatives: int) -> None:
    random, rows, items = np.random.default_rng(0), 3_000, 200
    history = [random.integers(0, items, 8).tolist() for _ in range(rows)]
    table = pa.table({"label": np.arange(rows) % 2, "item": random.integers(0, items, rows), "history": pa.array(history)})
    path = write(table, tmp_path / "log.parquet", row_group_rows=rows)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        options = f"USING slrm (negatives = {negatives}) WITH (share = (history AS item))"
        (trained,) = session.sql(f"TRAIN MODEL m {options} AS SELECT * FROM parquet.`{path}`").arrow().to_pylist()
        scan = session.engine.scan(f"SELECT * FROM parquet.`{path}`")
        assert isinstance(scan, ParquetScan)
        manifest = session.models.version("m", 1).manifest
    columns, algorithm = columns_from(manifest), algorithm_of(manifest)
    estimate = estimated_features(rows, scan, scan.splits(), columns, Encoder(columns, algorithm, 7, compact=True))
    assert trained["features"] > 10_000 > 2 * items
    assert 0.5 < estimate / trained["features"] < 2


def test_new_values_of_strings_go_on_coming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece's dictionary has the values of all of its rows, so its first half must not count them all."""
    random, rows = np.random.default_rng(0), 8_000
    users, words = ([f"{one}" for one in random.zipf(1.2, rows) % most] for most in (50, 100_000))
    table = pa.table({"label": np.arange(rows) % 2, "user": users, "word": words, "id": [f"i{n}" for n in range(rows)]})
    path = write(table, tmp_path / "log.parquet", row_group_rows=1000)
    monkeypatch.setattr(estimates, "FEATURE_ROWS", 1000)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        statement = f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{path}`"
        found = features_of(explained(session, f"EXPLAIN FAST {statement}"))
        (trained,) = session.sql(statement).arrow().to_pylist()
    assert 0.8 < found / trained["features"] < 1.25, (found, trained)


def features_of(said: dict[str, str]) -> int:
    return int(said["stored"].partition("about ")[2].split()[0].replace(",", ""))


def explained(session: xpsql.Session, statement: str) -> dict[str, str]:
    return dict(zip(*session.sql(statement).arrow().to_pydict().values(), strict=True))


@lengthy
@costly_after_first
@pytest.mark.parametrize("name", ["xftrl", "xnn", "owlqn", "xgboost", "slrm"])
def test_explain_learns_from_a_sample_and_forgets_it(tmp_path: Path, name: str) -> None:
    path = write(log(3000), tmp_path / "log.parquet", row_group_rows=1000)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        statement = USES[name].train("m", name, path, "workers = 1")
        reported, fast = explained(session, f"EXPLAIN {statement}"), explained(session, f"EXPLAIN FAST {statement}")
        assert session.sql("SHOW MODELS").arrow().num_rows == 0
        (trained,) = session.sql(statement).arrow().to_pylist()
        again = explained(session, f"EXPLAIN CONTINUE MODEL m AS {USES[name].query(path)}")
    for one in (reported, again):
        assert one["time"].endswith(" s, judged by the beginning of the input")
        assert float(one["time"].split()[1]) > 0
    assert fast["time"].endswith(" s, as of usual rows")
    held, unit, _, _, _, model, least = reported["memory"].split()[1:8]
    assert (unit, float(held.replace(",", "")) > 50, least) == ("MiB", True, "KiB"), model
    features = features_of(reported)
    assert 0.5 < features / trained["features"] < 2, (features, trained)


def test_a_sample_of_bad_rows_is_an_error_as_in_training(tmp_path: Path) -> None:
    table = pa.table({"label": [0, 1, 0, 1] * 10, "weight": [1.0] * 39 + [-1.0], "user": ["a", "b"] * 20})
    path = write(table, tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        statement = f"TRAIN MODEL m USING xftrl WEIGHT weight AS SELECT * FROM parquet.`{path}`"
        session.sql(f"EXPLAIN FAST {statement}")
        with pytest.raises(DataError, match="WEIGHT weight must be a finite number"):
            session.sql(f"EXPLAIN {statement}")
