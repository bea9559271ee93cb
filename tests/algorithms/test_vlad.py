"""NetVLAD and NeXtVLAD: the formulas written out, and what networks see of arrays that are pooled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import xpsql
from tests.algorithms.interests import interests
from tests.cases import costly, costly_after_first, lengthy
from xpsql.algorithms.layers.vlad import EXPANSION, GROUPS, VLADS
from xpsql.platform.errors import OptionError, StatementError
from xpsql.platform.progress import SilentReporter

WIDTH, CLUSTERS, BATCH, LENGTH = 8, 3, 2, 5


def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(x) / np.exp(x).sum()


def unit(v: NDArray[np.float64]) -> NDArray[np.float64]:
    return v / np.sqrt((v * v).sum() + 1e-8)


def netvlad(own: dict[str, NDArray[np.float64]], xs: NDArray[np.float64]) -> NDArray[np.float64]:
    v = np.zeros((CLUSTERS, WIDTH))
    for x in xs:
        near = softmax(x @ own["kernel"] + own["bias"])
        for k in range(CLUSTERS):
            v[k] += near[k] * (x - own["centres"][k])
    return unit(np.concatenate([unit(line) for line in v]))


def nextvlad(own: dict[str, NDArray[np.float64]], xs: NDArray[np.float64]) -> NDArray[np.float64]:
    part = EXPANSION * WIDTH // GROUPS
    v = np.zeros((CLUSTERS, part))
    for x in xs:
        wide = x @ own["expansion"]
        weight = 1 / (1 + np.exp(-(wide @ own["attention"] + own["attention_bias"])))
        scores = (wide @ own["kernel"] + own["bias"]).reshape(GROUPS, CLUSTERS)
        for g in range(GROUPS):
            near = weight[g] * softmax(scores[g])
            for k in range(CLUSTERS):
                v[k] += near[k] * (wide[g * part : (g + 1) * part] - own["centres"][k])
    return unit(np.concatenate([unit(line) for line in v]))


@pytest.mark.parametrize("name", VLADS)
def test_a_pool_is_its_formula_and_an_empty_set_is_zeros(name: str) -> None:
    random, vlad = np.random.default_rng(0), VLADS[name]("p", 1, WIDTH, CLUSTERS)
    own = {spec.name: random.normal(size=spec.shape) for spec in vlad.specs}
    x, mask = random.normal(size=(BATCH, LENGTH, WIDTH)), np.zeros((BATCH, LENGTH), bool)
    mask[0, :3] = True
    made = jax.jit(vlad.apply)({key: jnp.asarray(value, jnp.float32) for key, value in own.items()}, jnp.asarray(x), mask)
    written_out = {"netvlad": netvlad, "nextvlad": nextvlad}[name]({key[2:]: value for key, value in own.items()}, x[0, :3])
    np.testing.assert_allclose(made[0], written_out, atol=1e-5)
    assert made.shape == (BATCH, vlad.outputs)
    assert not np.asarray(made[1]).any()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("vlad"), reporter=SilentReporter()) as session:
        table = interests(3000)
        random = np.random.default_rng(0)
        bright = random.random(len(table)) < 0.5
        frames = [random.normal(size=(n % 4 + 1, 6)) + (np.arange(6) < 1) * (3 if b else -3) for n, b in enumerate(bright)]
        kind = pa.list_(pa.list_(pa.float32()))
        session.register("log", table.append_column("frames", pa.array([f.tolist() for f in frames], kind)))
        labelled = table.set_column(0, "label", pa.array(bright.astype(np.int8)))
        session.register("films", labelled.append_column("frames", pa.array([f.tolist() for f in frames], kind)))
        yield session


FILE = Path(__file__).parent / "bridges" / "plain.py"


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    "using",
    [
        "wide_deep (frames = (frames), dim = 4, clusters = 2)",
        "dcn (frames = (frames), dim = 4, clusters = 2, vlad = 'nextvlad')",
        f"network (file = '{FILE}', frames = (frames), dim = 4, clusters = 2)",
    ],
)
def test_a_network_learns_from_arrays_of_vectors(session: xpsql.Session, using: str) -> None:
    query = "SELECT label, item, frames FROM films"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} WITH (passes = 3) AS {query}")
    assert session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({query}))").arrow()["auc"][0].as_py() > 0.95
    session.sql(f"CONTINUE MODEL m AS {query} LIMIT 200")


@costly
def test_a_target_finds_its_category_among_pooled_elements(session: xpsql.Session) -> None:
    query = "SELECT label, user, item, category, clicks FROM log"
    using = "multi_task (pooled = (clicks), clusters = 12, dim = 8, hidden = (64, 32), vector_learning_rate = 0.1)"
    share = "share = (`clicks.item` AS item, `clicks.category` AS category)"
    session.sql(f"TRAIN MODEL pooled USING {using} WITH ({share}, passes = 4) AS {query}")
    assert session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL pooled, ({query}))").arrow()["auc"][0].as_py() > 0.65
    assert "netvlad.pooled.centres" in {entry.name for entry in session.models.version("pooled").manifest.dense}


@costly
def test_what_cannot_be_pooled_is_refused(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="frames"):
        session.sql("TRAIN MODEL bad USING wide_deep (frames = (item)) AS SELECT label, item FROM log")
    with pytest.raises(OptionError, match="vlad"):
        session.sql("TRAIN MODEL bad USING wide_deep (vlad = 'vlad') AS SELECT label, item FROM log")
