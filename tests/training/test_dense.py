"""Dense parameters in a training: learned, stored with the version, continued, exported, and used by predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import log, session, write
from xpsql import algorithms
from xpsql.algorithms.base import Algorithm, Inputs, Layout, Online, Supervised
from xpsql.algorithms.linear.scores import linear_scores
from xpsql.algorithms.losses import Loss, logloss
from xpsql.platform.errors import StatementError
from xpsql.platform.operators.base import DenseSpec, Operator, TableSpec
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.options import Part, option
from xpsql.platform.ps import pieces
from xpsql.platform.training.recipe import make
from xpsql.warehouse.dense import read_dense
from xpsql.warehouse.rows import stored_parts

__all__ = ["session"]

ALL = "SELECT * FROM parquet.`{}`"


@dataclass(frozen=True)
class TowerOptions:
    width: int = option(4, "units", minimum=1)
    momentum: bool = option(False, "learn with momentum instead of adam")


def tower(options: TowerOptions, layout: Layout) -> Algorithm:
    """Learn weights of features, and a layer over continuous inputs."""
    width = len(layout.continuous) + sum(dim for _, dim in layout.vectors)

    def kernel(seed: int) -> jax.Array:
        return jax.random.normal(jax.random.key(seed), (width, options.width))

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        hidden = jnp.tanh(inputs.dense @ parameters["kernel"]) @ parameters["output"]
        return linear_scores(parameters["weights"], inputs) + hidden

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(), table)

    return Algorithm(
        (TableSpec("weights", 1),),
        optimizer,
        Online(Supervised(scores, Loss(logloss, jax.nn.sigmoid, classifier=True))),
        dense=(DenseSpec("kernel", (width, options.width), kernel), DenseSpec("output", (options.width, 1))),
        dense_optimizer=lambda: optax.sgd(0.1, 0.9) if options.momentum else optax.adam(0.01),
    )


@pytest.fixture
def engine() -> str:
    """The embedded engine: executors do not know an algorithm that only this module has; test_xnn has both engines."""
    return "duckdb"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "ALGORITHMS", algorithms.ALGORITHMS.adding(Part("tower", TowerOptions, tower)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(4_000), tmp_path / "log.parquet")


def train(session: xpsql.Session, path: Path, model: str, **settings: Any) -> dict[tuple[str, str], Any]:
    written = ", ".join(f"{name} = {value!r}" for name, value in {"batch_size": 100, **settings}.items())
    session.sql(f"TRAIN MODEL {model} USING tower IGNORE (ts) WITH ({written}) AS {ALL.format(path)}")
    return read_dense(session.models.version(model).stored("dense"))


def same(one: Mapping[tuple[str, str], Any], other: Mapping[tuple[str, str], Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(values, other[name]) for name, values in one.items())


@lengthy
def test_predictions_are_those_of_the_stored_arrays(session: xpsql.Session, path: Path) -> None:
    stored = train(session, path, "m")
    assert {column for _, column in stored} == {"state_count", "state_mu", "state_nu", "w"}
    assert stored["kernel", "state_count"] == 40
    query = "SELECT * FROM ML.PREDICT(MODEL m, (SELECT 'none' AS user, -1 AS item, CAST(NULL AS DOUBLE) AS price, "
    query += "array('none') AS tags, map('none', 1D) AS scores, array(1F, 2F, 3F) AS vector))"
    (row,) = session.sql(query).arrow().to_pylist()
    weights = {w["slot"]: w["weights" if "weights" in w else "weight"] for w in vector_weights(session)}
    dense = np.array([0.0, 1.0, 2.0, 3.0])
    score = weights["(intercept)"] + sum(x * w for x, w in zip(dense[1:], weights["vector"], strict=True))
    score += (np.tanh(dense @ stored["kernel", "w"]) @ stored["output", "w"])[0]
    assert row["predicted_label"] == pytest.approx(1 / (1 + np.exp(-score)), rel=1e-4)


def vector_weights(session: xpsql.Session) -> list[dict[str, Any]]:
    """Return the weight of the intercept, and the weights of the vector's elements in their order."""
    ids = ", ".join(f"{i}, xxhash64('vector', CAST({i} AS BIGINT))" for i in range(3))
    elements = session.sql(
        f"SELECT slot, weight FROM (SELECT e.i, w.slot, w.weight FROM (SELECT stack(3, {ids}) AS (i, key)) e "
        "JOIN ML.WEIGHTS(MODEL m) w ON w.key = e.key) ORDER BY i"
    ).arrow()
    bias = session.sql("SELECT slot, weight FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'").arrow().to_pylist()
    return [*bias, {"slot": "vector", "weights": elements["weight"].to_pylist()}]


@costly
@pytest.mark.parametrize("settings", [{"shards": 3}, {"workers": 2, "sync": "bsp"}, {"workers": 2, "sync": "bsp", "shards": 2}])
def test_trainings_are_deterministic_and_shards_change_nothing(
    session: xpsql.Session, path: Path, settings: dict[str, Any]
) -> None:
    first, again = train(session, path, "a", **settings), train(session, path, "b", **settings)
    alone = train(session, path, "c", **{**settings, "shards": 1})
    assert same(first, again)
    assert same(first, alone)


@costly
def test_large_parameters_lie_in_pieces_on_all_shards_and_learn_the_same(
    session: xpsql.Session, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    settings = {"workers": 2, "sync": "bsp"}
    whole = train(session, path, "whole", **settings)
    monkeypatch.setattr(pieces, "LEAST_FLOATS", 4)
    request.addfinalizer(make.cache_clear)
    make.cache_clear()
    assert same(train(session, path, "cut", shards=3, **settings), whole)
    version = session.models.version("cut")
    lines = pa.concat_tables([pq.read_table(part.path) for part in version.stored("dense")], promote_options="default")
    kernel = lines.filter((pc.field("name") == "kernel") & (pc.field("column") == "w"))
    assert len(version.stored("dense")) == 3
    assert kernel["shape"].to_pylist() == [[1, 4]] * 4
    sums = "SELECT sum(predicted_label) AS s FROM ML.PREDICT(MODEL {}, ({}))"
    predicted = [session.sql(sums.format(model, ALL.format(path))).arrow() for model in ("whole", "cut")]
    assert predicted[0] == predicted[1]
    session.sql(f"EXPORT MODEL cut TO '{tmp_path / 'out'}' FORMAT parquet")
    assert same(read_dense(stored_parts(tmp_path / "out" / "_dense")), whole)
    for model, shards in (("cut", 2), ("whole", 1)):
        options = f"WITH (batch_size = 100, shards = {shards}, workers = 1)"
        session.sql(f"CONTINUE MODEL {model} IGNORE (ts) {options} AS {ALL.format(path)}")
    monkeypatch.setattr(pieces, "LEAST_FLOATS", 1 << 15)
    make.cache_clear()
    session.sql(f"CONTINUE MODEL cut IGNORE (ts) WITH (batch_size = 100) AS {ALL.format(path)}")
    continued = [read_dense(session.models.version(model, 2).stored("dense")) for model in ("cut", "whole")]
    assert same(*continued)
    assert session.models.version("cut", 3).manifest.status == "ready"


def test_with_hybrid_workers_move_dense_parameters_once_a_step(session: xpsql.Session, path: Path) -> None:
    stored = train(session, path, "m", workers=2, shards=2, sync="hybrid")
    steps = stored["output", "state_count"]
    assert 20 <= steps < 40  # of 40 batches; as many as the worker with more splits has
    count = session.sql("SELECT max(count) AS n FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()[0]["n"]
    assert count == 4_000
    (row,) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({ALL.format(path)}))").arrow().to_pylist()
    assert row["auc"] > 0.7
    with pytest.raises(StatementError, match=r"sync = 'hybrid' .* xftrl has none\. Take 'asp'"):
        session.sql(f"TRAIN MODEL n USING xftrl IGNORE (ts) WITH (sync = 'hybrid') AS {ALL.format(path)}")


@pytest.mark.parametrize("sync", ["asp", "ssp"])
def test_workers_that_do_not_wait_learn_too(session: xpsql.Session, path: Path, sync: str) -> None:
    stored = train(session, path, "m", workers=3, shards=2, sync=sync)
    assert stored["output", "state_count"] == 40
    (row,) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({ALL.format(path)}))").arrow().to_pylist()
    assert row["auc"] > 0.7


@costly
def test_continuing_is_as_if_there_had_been_one_training(session: xpsql.Session, tmp_path: Path) -> None:
    whole = log(4_000).drop_columns("price")  # its running scale would be learned twice
    paths = [
        write(whole, tmp_path / "all"),
        write(whole.slice(0, 2_000), tmp_path / "1"),
        write(whole.slice(2_000), tmp_path / "2"),
    ]
    expected = train(session, paths[0], "whole")
    train(session, paths[1], "m", shards=2)
    session.sql(f"CONTINUE MODEL m IGNORE (ts) WITH (batch_size = 100) AS {ALL.format(paths[2])}")
    assert same(read_dense(session.models.version("m").stored("dense")), expected)


def test_what_cannot_be_continued_is_refused_with_the_reason(session: xpsql.Session, path: Path) -> None:
    train(session, path, "m")
    more = f"SELECT *, 1.5D AS more FROM parquet.`{path}`"
    with pytest.raises(StatementError, match=r"kernel of shape \(5, 4\); version 1 has it of shape \(4, 4\)"):
        session.sql(f"CONTINUE MODEL m IGNORE (ts) AS {more}")
    with pytest.raises(StatementError, match="cannot change the optimizer of dense parameters: it keeps state_trace, w"):
        session.sql(f"CONTINUE MODEL m USING tower (momentum = TRUE) IGNORE (ts) AS {ALL.format(path)}")


@costly_after_first
@pytest.mark.parametrize("algorithm", ["xnn", "dcn"])
def test_a_vector_that_a_network_was_not_made_for_is_refused(session: xpsql.Session, path: Path, algorithm: str) -> None:
    session.sql(f"TRAIN MODEL m USING {algorithm} AS SELECT label, user FROM parquet.`{path}`")
    continued = f"CONTINUE MODEL m AS SELECT label, user, vector FROM parquet.`{path}`"
    for text in (f"EXPLAIN {continued}", continued):
        with pytest.raises(StatementError, match=r"of shape .*; version 1 has it of shape .* Keep the slots"):
            session.sql(text)
    assert session.models.numbers("m") == [1]


@costly
def test_explain_and_describe_show_dense_parameters(session: xpsql.Session, path: Path) -> None:
    train(session, path, "m")
    described = dict(zip(*session.sql("DESCRIBE MODEL m").arrow().to_pydict().values(), strict=True))
    assert described["dense kernel"] == "float32[4, 4]"
    text = f"EXPLAIN TRAIN MODEL n USING tower IGNORE (ts, vector) AS {ALL.format(path)}"
    explained = dict(zip(*session.sql(text).arrow().to_pydict().values(), strict=True))
    assert explained["dense kernel"].startswith("float32[1, 4]")
    text = f"EXPLAIN TRAIN MODEL n USING tower IGNORE (ts) AS {ALL.format(path)}"
    explained = dict(zip(*session.sql(text).arrow().to_pydict().values(), strict=True))
    assert explained["dense kernel"].startswith("float32[4, 4]")


@costly
def test_exports_and_shrunk_versions_have_them(session: xpsql.Session, path: Path, tmp_path: Path) -> None:
    stored = train(session, path, "m")
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT parquet")
    assert same(read_dense(stored_parts(tmp_path / "out" / "_dense")), stored)
    session.sql("SHRINK MODEL m WHERE updates < 2")
    assert same(read_dense(session.models.version("m", 2).stored("dense")), stored)
