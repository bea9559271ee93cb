"""A new place for the values of slots is a file: what is trained, explained, served and exported takes it from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import lengthy
from tests.serving.conftest import loaded_of
from tests.training.log import write
from xpsql import algorithms
from xpsql.platform.input import kinds
from xpsql.platform.input.columns import columns_from
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving import loaded
from xpsql.platform.serving.keys import keys_of
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial
from xpsql.testing.algorithms import LAYOUT

from .series import SERIES, SERIES_BLOCK, TREND, SeriesSlot

TRIAL = AlgorithmTrial(TREND, layout=LAYOUT.having(SERIES_BLOCK, [SeriesSlot("loads")]))
NUMBERS = pa.list_(pa.float32())


@lengthy
@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_an_algorithm_over_a_new_block_conforms(check: Callable[[AlgorithmTrial], None]) -> None:
    check(TRIAL)


def test_a_layout_names_the_slots_of_its_blocks_last() -> None:
    assert TRIAL.inputs().block(SERIES_BLOCK)[0].values.shape == TRIAL.inputs().block(SERIES_BLOCK)[0].mask.shape
    assert LAYOUT.having(SERIES_BLOCK, [SeriesSlot("loads")]).slots == (*LAYOUT.slots, "loads")
    assert LAYOUT.having(SERIES_BLOCK, [SeriesSlot("loads")]).having(SERIES_BLOCK, []) == LAYOUT


def plants(count: int, seed: int) -> pa.Table:
    """Return examples whose label is whether the mean of their last four numbers is positive."""
    random = np.random.default_rng(seed)
    values = [[*random.normal(size=random.integers(0, 7)).tolist(), *([None] * (i % 2))] for i in range(count)]
    shown = [[value for value in one[-4:] if value is not None] for one in values]
    label = [int(bool(one) and np.mean(one) > 0) for one in shown]
    site = random.integers(0, 5, count).astype(str)
    return pa.table({"label": label, "site": site, "loads": pa.array(values, NUMBERS)})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    """Give a session with a model that learned from series, and continued; the kind is registered: its one line."""
    folder = tmp_path_factory.mktemp("plants")
    with pytest.MonkeyPatch.context() as patch, xpsql.connect(folder, reporter=SilentReporter()) as session:
        patch.setattr(algorithms, "ALGORITHMS", algorithms.ALGORITHMS.adding(TREND))
        patch.setattr(kinds, "KINDS", (*kinds.KINDS, SERIES))
        for day in range(3):
            path = write(plants(1500, day), folder / f"day{day}.parquet")
            session.sql(f"CREATE TABLE day{day} AS SELECT * FROM parquet.`{path}`")
        session.sql("TRAIN MODEL m USING trend (loads = (loads), length = 4) WITH (passes = 4) AS SELECT * FROM day0")
        session.sql("CONTINUE MODEL m AS SELECT * FROM day1")
        yield session


def answer(session: xpsql.Session, query: str) -> list[dict[str, Any]]:
    return session.sql(query).arrow().to_pylist()


def test_a_model_learns_from_a_new_block_and_explains_by_it(session: xpsql.Session) -> None:
    (found,) = answer(session, "SELECT auc FROM ML.EVALUATE(MODEL m, TABLE day2)")
    assert found["auc"] > 0.95
    explained = answer(session, "SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, (SELECT * FROM day2 LIMIT 20), 2)")
    assert {one["feature"] for row in explained for one in row["top_feature_attributions"]} >= {"loads", "site"}
    important = answer(session, "SELECT * FROM ML.FEATURE_IMPORTANCE(MODEL m, TABLE day2)")
    assert important[0]["slot"] == "loads"


@lengthy
def test_a_service_and_an_export_take_a_new_block(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded, "BATCH_SIZES", (64,))
    expected = answer(session, "SELECT * FROM ML.PREDICT(MODEL m, TABLE day2)")[:50]
    model = loaded_of(session.models.find("m", None))
    table = pa.table({column.name: column.array([row[column.name] for row in expected]) for column in model.inputs})
    found = model.predict(table)["predicted_label"].to_pylist()
    np.testing.assert_allclose(found, [row["predicted_label"] for row in expected], 1e-5)
    pytest.importorskip("jax2onnx", reason="the packages of the extra onnx")
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'graph'}' FORMAT onnx")  # which compares the graph's predictions with ours
    assert (tmp_path / "graph" / "model.onnx").exists()


@lengthy
def test_an_export_of_a_block_that_makes_no_graph_says_so(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax2onnx", reason="the packages of the extra onnx")
    monkeypatch.delattr(type(SERIES_BLOCK), "graph")
    with pytest.raises(xpsql.StatementError, match="FORMAT onnx has no inputs for loads: the block series does not define"):
        session.sql(f"EXPORT MODEL m TO '{tmp_path / 'graph'}' FORMAT onnx")
    assert not (tmp_path / "graph").exists()


def test_numbers_of_a_new_block_are_compared_by_their_bits(session: xpsql.Session) -> None:
    columns = columns_from(session.models.find("m", None).manifest)
    table = pa.table({"site": ["1", "2"], "loads": pa.array([[1.5, None], None], NUMBERS)})
    first, second = (dict(row) for row in keys_of(table, columns).to_pylist())
    assert first["loads"] == [int(np.float32(1.5).view(np.int32))]
    assert second["loads"] == []
