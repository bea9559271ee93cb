"""Arrays of vectors: the last ones stay, NULL vectors keep their place, and models learn from them and predict by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
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
from xpsql.algorithms.blocks.vector_arrays import VECTOR_ARRAYS, ArraySlot
from xpsql.algorithms.linear.xftrl import XftrlOptions
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.batches import Batch, Ladders, batches
from xpsql.platform.input.columns import Columns
from xpsql.platform.input.encode import encode
from xpsql.platform.input.kinds.vector_array import VECTOR_ARRAY
from xpsql.platform.input.slots import columns_of
from xpsql.platform.options import Named
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.messages import BatchId
from xpsql.platform.serving import loaded
from xpsql.platform.serving.refusal import RequestError
from xpsql.platform.training.plan import Plan, Use
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial
from xpsql.testing.algorithms import LAYOUT

from .averages import AVERAGES

PLAN = Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "")
NAN = float("nan")
FRAMES = [[[1.0, 2.0], None, [3.0, NAN]], None, [], [[5.0, 6.0]], [[7.0, 7.0], [8.0, 8.0], [9.0, 9.0], [0.0, float("inf")]]]
TRIAL = AlgorithmTrial(AVERAGES, layout=LAYOUT.having(VECTOR_ARRAYS, [ArraySlot("frames", "frames", 2)]))


def columns_for(table: pa.Table, length: int) -> Columns:
    named = (Named("frames", ("frames",), "vectors", length),)
    columns = columns_of(table.schema, PLAN.roles._replace(named=named, algorithm="averages"), None)
    dim = VECTOR_ARRAY.size(table.column("frames").combine_chunks())
    return replace(columns, slots=tuple(replace(slot, dim=dim) for slot in columns.slots))


def frames(values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    column = pa.array(values, kind or pa.list_(pa.list_(pa.float32())))
    return pa.table({"label": np.arange(len(values)) % 2, "frames": pa.chunked_array([column.slice(0, 2), column.slice(2)])})


def cut(table: pa.Table, length: int, size: int) -> list[Batch]:
    columns = columns_for(table, length)
    return list(batches(encode(table, columns, True), size, BatchId(), Ladders(Ladder(), Ladder(), lambda longest, most: most)))


@pytest.mark.parametrize("kind", [pa.list_(pa.list_(pa.float64())), pa.large_list(pa.list_(pa.float32()))])
def test_the_last_vectors_stay_and_a_null_one_keeps_its_place(kind: pa.DataType) -> None:
    first, second = cut(frames(FRAMES, kind), 3, 4)
    (one,), (other,) = first.block(VECTOR_ARRAYS), second.block(VECTOR_ARRAYS)
    assert one.mask.tolist() == [[True, False, True], [False] * 3, [False] * 3, [True, False, False]]
    assert one.values[[0, 3]].tolist() == [[[1, 2], [0, 0], [3, 0]], [[5, 6], [0, 0], [0, 0]]]
    assert not one.values[1:3].any()
    assert other.values[0].tolist() == [[8, 8], [9, 9], [0, 0]], "the oldest is left out; infinity is no number"
    assert other.mask.tolist() == [[True] * 3, *[[False] * 3] * 3], "padding has no vectors"
    assert one.empty(2, 0).values.shape == (2, 3, 2)


def test_what_is_no_array_of_vectors_of_one_length_is_refused() -> None:
    with pytest.raises(StatementError, match=r"Option frames of algorithm averages expects arrays of vectors.*array<float>"):
        columns_for(frames([[1.0]], pa.list_(pa.float32())), 3)
    with pytest.raises(DataError, match=r"vectors of frames have 2 elements; one has 1\. WHERE forall\(frames, v -> v IS NULL"):
        cut(frames([[[1.0, 2.0]], [[1.0]]]), 3, 4)
    assert VECTOR_ARRAY.size(frames([None, [], [None]]).column("frames").combine_chunks()) == 0, "none tells"


@lengthy
@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_an_algorithm_over_arrays_of_vectors_conforms(check: Callable[[AlgorithmTrial], None]) -> None:
    check(TRIAL)


def films(count: int, seed: int) -> pa.Table:
    """Return examples whose label is whether the mean of their vectors points the way of (1, -1, 0)."""
    random = np.random.default_rng(seed)
    values = [[*random.normal(size=(random.integers(0, 6), 3)).tolist(), *([None] * (i % 2))] for i in range(count)]
    shown = [[vector for vector in film[-4:] if vector is not None] for film in values]
    label = [int(bool(film) and np.mean(film, axis=0) @ [1, -1, 0] > 0) for film in shown]
    kind = pa.list_(pa.list_(pa.float32()))
    return pa.table({"label": label, "genre": random.integers(0, 5, count).astype(str), "frames": pa.array(values, kind)})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    """Give a session with a model that learned from a log, and went on with another day."""
    folder = tmp_path_factory.mktemp("films")
    with pytest.MonkeyPatch.context() as patch, xpsql.connect(folder, reporter=SilentReporter()) as session:
        patch.setattr(algorithms, "ALGORITHMS", algorithms.ALGORITHMS.adding(AVERAGES))
        for day in range(3):
            path = write(films(1500, day), folder / f"day{day}.parquet")
            session.sql(f"CREATE TABLE day{day} AS SELECT * FROM parquet.`{path}`")
        session.sql("TRAIN MODEL m USING averages (frames = (frames), length = 4) WITH (passes = 4) AS SELECT * FROM day0")
        session.sql("CONTINUE MODEL m AS SELECT * FROM day1")
        yield session


def rows(session: xpsql.Session, query: str) -> list[dict[str, Any]]:
    return session.sql(query).arrow().to_pylist()


def test_a_model_learns_from_arrays_of_vectors(session: xpsql.Session) -> None:
    (found,) = rows(session, "SELECT auc FROM ML.EVALUATE(MODEL m, TABLE day2)")
    assert found["auc"] > 0.97
    slots = rows(session, "SELECT slot, kind FROM ML.FEATURE_INFO(MODEL m)")
    assert {"slot": "frames", "kind": "vector_array"} in slots
    explained = rows(session, "SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, (SELECT * FROM day2 LIMIT 20), 3)")
    names = {one["feature"] for row in explained for one in row["top_feature_attributions"]}
    assert names >= {"frames", "genre"}
    with pytest.raises(StatementError, match=r"frames.*which the query does not return"):
        session.sql("CONTINUE MODEL m AS SELECT label, genre FROM day1")
    with pytest.raises(StatementError, match=r"vectors of 3 elements in frames.*one of 2"):
        session.sql("CONTINUE MODEL m AS SELECT label, genre, transform(frames, v -> slice(v, 1, 2)) AS frames FROM day1")


def test_a_service_and_an_export_predict_what_ml_predict_does(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded, "BATCH_SIZES", (64,))
    expected = rows(session, "SELECT * FROM ML.PREDICT(MODEL m, TABLE day2)")[:50]
    model = loaded_of(session.models.find("m", None))
    given = [{"genre": row["genre"], "frames": row["frames"]} for row in expected]
    table = pa.table({column.name: column.array([row[column.name] for row in given]) for column in model.inputs})
    found = model.predict(table)["predicted_label"].to_pylist()
    np.testing.assert_allclose(found, [row["predicted_label"] for row in expected], 1e-5)
    frames = next(column for column in model.inputs if column.name == "frames")
    with pytest.raises(RequestError, match="row 1: expected vectors of 3 elements, got one of 2"):
        frames.array([[[1, 2, 3]], [[1, 2]]])
    pytest.importorskip("jax2onnx", reason="the packages of the extra onnx")
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'graph'}' FORMAT onnx")  # which compares the graph's predictions with ours
    assert (tmp_path / "graph" / "model.onnx").exists()
