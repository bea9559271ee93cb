"""Products of slots as inputs of layers, and gates of cross layers."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.linear.interactions import field_products, inner_products
from xpsql.algorithms.networks.dcn import Cross, DcnOptions
from xpsql.algorithms.networks.xnn import XnnOptions
from xpsql.platform.progress import SilentReporter
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial

OPTIONS = (
    ("xnn", XnnOptions(interaction="products", hidden=(8,), dim=4)),
    ("xnn", XnnOptions(interaction="fields", hidden=(8,), dim=4, field_dim=2)),
    ("xnn", XnnOptions(interaction="fields", hidden=(8,), dim=4, groups=(("user", "item"),))),
    ("dcn", DcnOptions(gate=True, hidden=(8,), dim=4, rank=3)),
)


def test_inner_products_are_those_of_all_pairs_of_slots() -> None:
    slots = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)
    found = inner_products(jnp.asarray(slots))
    wanted = np.array([[slots[b, i] @ slots[b, j] for i in range(4) for j in range(i + 1, 4)] for b in range(5)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_products_of_fields_are_those_of_what_each_of_two_slots_has_for_the_other() -> None:
    slots = np.random.default_rng(0).normal(size=(5, 4, 4 * 3)).astype(np.float32)
    found = field_products(jnp.asarray(slots))
    each = slots.reshape(5, 4, 4, 3)
    wanted = np.array([[each[b, i, j] @ each[b, j, i] for i in range(4) for j in range(i + 1, 4)] for b in range(5)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_gate_weighs_what_a_cross_layer_multiplies(rank: int) -> None:
    random, cross = np.random.default_rng(1), Cross(1, 4, rank, gate=True)
    own = {spec.name: random.normal(size=spec.shape).astype(np.float32) for spec in cross.specs()}
    first, x = random.normal(size=(2, 3, 4)).astype(np.float32)

    def matrix(prefix: str) -> np.ndarray:
        if not rank:
            return own[f"cross_1.{prefix}kernel"]
        product: np.ndarray = own[f"cross_1.{prefix}down"] @ own[f"cross_1.{prefix}up"]
        return product

    wanted = first * (x @ matrix("") + own["cross_1.bias"]) / (1 + np.exp(-x @ matrix("gate_"))) + x
    parameters = {name: jnp.asarray(values) for name, values in own.items()}
    np.testing.assert_allclose(cross.apply(parameters, jnp.asarray(first), jnp.asarray(x)), wanted, rtol=1e-4, atol=1e-5)


@costly
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_networks_with_them_conform(name: str, options: object) -> None:
    part = next(part for part in ALGORITHMS if part.name == name)
    for check in ALGORITHM_CHECKS:
        check(AlgorithmTrial(part, options))


@costly
def test_products_learn_that_two_slots_agree(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    left, right = random.integers(0, 8, (2, 20_000))
    label = (random.random(20_000) < np.where(left == right, 0.9, 0.1)).astype(np.int8)
    pq.write_table(pa.table({"label": label, "a": left.astype("U"), "b": right.astype("U")}), tmp_path / "log.parquet")
    query = f"SELECT * FROM parquet.`{tmp_path / 'log.parquet'}`"
    found = {}
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        for interaction in ("none", "products", "fields"):
            using = f"xnn (interaction = {interaction}, hidden = (4), vector_learning_rate = 0.1, init_scale = 0.1)"
            session.sql(f"TRAIN OR REPLACE MODEL m USING {using} WITH (workers = 1) AS {query}")
            ((found[interaction],),) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({query}))").fetchall()
        session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT onnx")
    assert min(found["products"], found["fields"]) > found["none"] + 0.005
