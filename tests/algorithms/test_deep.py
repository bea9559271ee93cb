"""Wide & Deep, DeepFM and DCN against their definitions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

import xpsql
from tests.algorithms.inputs import BATCH, LAYOUT, NUM_ROWS, features, linear_part, random_inputs
from tests.cases import costly_after_first
from xpsql.algorithms.base import Algorithm, Inputs
from xpsql.algorithms.layers.long_vectors import LONG
from xpsql.algorithms.networks.dcn import DcnOptions, dcn
from xpsql.algorithms.networks.deep import SidedOptions
from xpsql.algorithms.networks.deepfm import deepfm
from xpsql.algorithms.networks.wide_deep import wide_deep
from xpsql.platform.errors import OptionError

DIM = 3
SLOTS = (*LAYOUT.scalar, *LAYOUT.bags, *LAYOUT.continuous, "picture")
Vector = NDArray[np.float32]


def parameters(algorithm: Algorithm) -> dict[str, Any]:
    random = np.random.default_rng(1)
    shapes = {table.name: (NUM_ROWS, table.dim) for table in algorithm.tables} | {s.name: s.shape for s in algorithm.dense}
    return {name: jnp.asarray(random.normal(size=shape) / 2, jnp.float32) for name, shape in shapes.items()}


def slots(values: dict[str, Any], inputs: Inputs, example: int) -> dict[str, Vector]:
    """Return the vector of each slot of an example."""
    own = features(inputs, example)
    return {s: sum((values["vectors"][f.row] * f.value for f in own if f.slot == s), np.zeros(DIM)) for s in SLOTS}


def wide(values: dict[str, Any], inputs: Inputs, example: int) -> float:
    return linear_part(values["weights"], inputs, example)


def network(values: dict[str, Any], x: Vector) -> float:
    for i in (1, 2):
        x = np.maximum(x @ values[f"hidden_{i}.kernel"] + values[f"hidden_{i}.bias"], 0)
    return float((x @ values["output.kernel"] + values["output.bias"])[0])


def network_inputs(values: dict[str, Any], inputs: Inputs, example: int) -> Vector:
    own = slots(values, inputs, example)
    return np.concatenate([*(own[slot] for slot in (*LAYOUT.scalar, *LAYOUT.bags)), inputs.dense[example]])


def test_wide_deep_adds_a_linear_model_and_a_network() -> None:
    algorithm = wide_deep(SidedOptions(dim=DIM, hidden=(5, 4)), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs()
    scores = algorithm.scores(values, inputs)
    for example in range(BATCH):
        expected = wide(values, inputs, example) + network(values, network_inputs(values, inputs, example))
        np.testing.assert_allclose(scores[example, 0], expected, rtol=1e-4, atol=1e-4)


def test_deepfm_adds_the_inner_products_of_pairs_of_slots() -> None:
    algorithm = deepfm(SidedOptions(dim=DIM, hidden=(5, 4)), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs()
    scores = algorithm.scores(values, inputs)
    for example in range(BATCH):
        pairs = sum(a @ b for a, b in itertools.combinations(slots(values, inputs, example).values(), 2))
        expected = wide(values, inputs, example) + pairs + network(values, network_inputs(values, inputs, example))
        np.testing.assert_allclose(scores[example, 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", [0, 2])
def test_dcn_multiplies_its_inputs_with_what_layers_make_of_them(rank: int) -> None:
    algorithm = dcn(DcnOptions(dim=DIM, hidden=(5, 4), cross=3, rank=rank), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs()
    scores = algorithm.scores(values, inputs)
    for example in range(BATCH):
        first = x = network_inputs(values, inputs, example)
        for i in (1, 2, 3):
            kernel = values[f"cross_{i}.down"] @ values[f"cross_{i}.up"] if rank else values[f"cross_{i}.kernel"]
            x = first * (x @ kernel + values[f"cross_{i}.bias"]) + x
        crossed = float((x @ values["cross_output.kernel"] + values["cross_output.bias"])[0])
        expected = wide(values, inputs, example) + crossed + network(values, first)
        np.testing.assert_allclose(scores[example, 0], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rank", [0, 2])
def test_cross_layers_of_dcn_add_nothing_before_they_learn(rank: int) -> None:
    inputs = random_inputs()
    crossed, plain = dcn(DcnOptions(dim=DIM, rank=rank), LAYOUT), wide_deep(SidedOptions(dim=DIM), LAYOUT)
    values = parameters(crossed)
    values |= {s.name: jnp.zeros(s.shape) if s.init is None else s.init(7) for s in crossed.dense}
    np.testing.assert_array_equal(crossed.scores(values, inputs), plain.scores(values, inputs))


def test_long_vectors_are_more_inputs_of_the_layers() -> None:
    algorithm = wide_deep(SidedOptions(dim=DIM, long_dim=2, hidden=(5, 4)), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs()
    kernel, without = values["hidden_1.kernel"], wide_deep(SidedOptions(dim=DIM, hidden=(5, 4)), LAYOUT)
    own = without.dense[0].shape[0]
    assert kernel.shape[0] == own + 2 * 4
    scores = algorithm.scores({**values, LONG: jnp.zeros((NUM_ROWS, 2))}, inputs)
    np.testing.assert_allclose(
        scores,
        without.scores(
            {name: kernel[:own] if name == "hidden_1.kernel" else values[name] for name in values if name != LONG}, inputs
        ),
        rtol=1e-5,
    )
    assert not np.allclose(algorithm.scores(values, inputs), scores)


@pytest.mark.parametrize("make", [wide_deep, deepfm])
def test_several_labels_have_an_output_each(make: Any) -> None:
    layout = LAYOUT._replace(labels=("click", "buy"))
    algorithm = make(SidedOptions(dim=DIM, hidden=(5,)), layout)
    assert algorithm.scores(parameters(algorithm), random_inputs()).shape == (BATCH, 2)


@pytest.mark.parametrize(("make", "options"), [(wide_deep, SidedOptions), (deepfm, SidedOptions), (dcn, DcnOptions)])
def test_layers_without_a_number_of_units_are_refused_by_name(make: Any, options: Any) -> None:
    with pytest.raises(OptionError, match=f"of algorithm {make.__name__} expects whole numbers"):
        make(options(hidden=(8, 0)), LAYOUT)


@costly_after_first
@pytest.mark.parametrize("name", ["wide_deep", "deepfm", "dcn", "final", "two_stream"])
def test_a_network_may_do_without_a_weight_per_feature(session: xpsql.Session, warehouse: Path, name: str) -> None:
    log = "SELECT id % 2 AS label, id % 4 AS x FROM range(600)"
    session.sql(
        f"TRAIN OR REPLACE MODEL narrow USING {name} (dim = 2, hidden = (4), wide = false) "
        f"WITH (passes = 3, batch_size = 50) AS {log}"
    )
    assert [one.name for one in (warehouse / "models" / "narrow" / "v1" / "rows").iterdir()] == ["vectors"]
    assert session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL narrow, ({log}))").fetchall()[0][0] > 0.9
