"""XNN against its definition, slot by slot and pair by pair."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.algorithms.inputs import BATCH, LAYOUT, NUM_ROWS, features, linear_part, random_inputs
from tests.cases import costly_after_first, lengthy
from xpsql.algorithms.base import Algorithm, Inputs
from xpsql.algorithms.layers.dense_layers import Layer, layer_norm
from xpsql.algorithms.networks.xnn import XnnOptions, xnn
from xpsql.platform.errors import OptionError

DIM = 3
SLOTS = (*LAYOUT.scalar, *LAYOUT.bags, *LAYOUT.continuous, "picture")
Parameters = dict[str, Any]


def parameters(algorithm: Algorithm, seed: int = 1) -> Parameters:
    random = np.random.default_rng(seed)
    shapes = {table.name: (NUM_ROWS, table.dim) for table in algorithm.tables} | {s.name: s.shape for s in algorithm.dense}
    return {name: jnp.asarray(random.normal(size=shape) / 2, jnp.float32) for name, shape in shapes.items()}


def pooled(values: Parameters, inputs: Inputs, example: int, mean: bool = False) -> dict[str, NDArray[np.float32]]:
    """Return the vector of each slot of an example, by the definition."""
    found = {}
    for slot in SLOTS:
        mine = [f for f in features(inputs, example) if f.slot == slot]
        found[slot] = sum((values["vectors"][f.row] * f.value for f in mine), np.zeros(DIM, np.float32))
        if mean and slot in LAYOUT.bags and mine:
            found[slot] = found[slot] / sum(f.value for f in mine)
    return found


def deep(values: Parameters, x: NDArray[np.float32], num_hidden: int) -> float:
    for i in range(1, num_hidden + 1):
        x = np.maximum(x @ values[f"hidden_{i}.kernel"] + values[f"hidden_{i}.bias"], 0)
    return float((x @ values["output.kernel"] + values["output.bias"])[0])


@lengthy
@pytest.mark.parametrize("interaction", ["none", "bi", "pairs"])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("wide", [True, False])
def test_scores_follow_the_definition(interaction: str, pooling: str, wide: bool) -> None:
    algorithm = xnn(XnnOptions(dim=DIM, hidden=(5, 4), interaction=interaction, pooling=pooling, wide=wide), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs(wide)
    scores = algorithm.scores(values, inputs)
    assert scores.shape == (BATCH, 1)
    for example in range(BATCH):
        slots = pooled(values, inputs, example, pooling == "mean")
        pairs = list(itertools.combinations(slots.values(), 2))
        x = np.concatenate([*(slots[slot] for slot in (*LAYOUT.scalar, *LAYOUT.bags)), inputs.dense[example]])
        score = 0.0
        if interaction == "bi":
            bi = sum(a * b for a, b in pairs)
            x, score = np.concatenate([x, bi]), float(bi.sum())
        if interaction == "pairs":
            strength = (values["pairs"] + values["pairs"].T) / 2
            score = sum(
                strength[i, j] * a @ b for ((i, j), (a, b)) in zip(itertools.combinations(range(6), 2), pairs, strict=True)
            )
        if wide:
            score += linear_part(values["weights"], inputs, example)
        np.testing.assert_allclose(scores[example, 0], score + deep(values, x, 2), rtol=1e-4, atol=1e-4)


def test_long_vectors_are_more_inputs_of_the_network() -> None:
    algorithm = xnn(XnnOptions(dim=DIM, long_dim=2, hidden=(5,)), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs()
    kernel = values["hidden_1.kernel"]
    without = xnn(XnnOptions(dim=DIM, hidden=(5,)), LAYOUT)
    assert kernel.shape[0] == without.dense[0].shape[0] + 2 * 4
    scores = algorithm.scores({**values, "long_vectors": jnp.zeros((NUM_ROWS, 2))}, inputs)
    expected = without.scores({**values, "hidden_1.kernel": kernel[: without.dense[0].shape[0]]}, inputs)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert not np.allclose(algorithm.scores(values, inputs), expected)


@pytest.mark.parametrize("interaction", ["none", "bi", "pairs"])
def test_slots_of_a_group_are_one_slot_whose_vector_is_their_sum(interaction: str) -> None:
    algorithm = xnn(XnnOptions(dim=DIM, hidden=(5,), interaction=interaction, groups=(("Item", "scores"),)), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs()
    scores = algorithm.scores(values, inputs)
    for example in range(BATCH):
        slots = pooled(values, inputs, example)
        units = [slots["user"], slots["tags"], slots["item"] + slots["scores"], slots["price"], slots["picture"]]
        pairs = [(i, j, units[i] * units[j]) for i, j in itertools.combinations(range(5), 2)]
        x = np.concatenate([*units[:3], inputs.dense[example]])
        score = linear_part(values["weights"], inputs, example)
        if interaction == "bi":
            bi = sum(product for _, _, product in pairs)
            x, score = np.concatenate([x, bi]), score + bi.sum()
        if interaction == "pairs":
            strength = (values["pairs"] + values["pairs"].T) / 2
            score += sum(strength[i, j] * product.sum() for i, j, product in pairs)
        np.testing.assert_allclose(scores[example, 0], score + deep(values, x, 1), rtol=1e-4, atol=1e-4)


def test_each_hidden_layer_may_have_an_activation_of_its_own() -> None:
    algorithm = xnn(XnnOptions(dim=DIM, hidden=(5, 4), activation=("relu", "linear"), wide=False), LAYOUT)
    values, inputs = parameters(algorithm), random_inputs(intercept=False)
    x = np.concatenate([*(pooled(values, inputs, 0)[slot] for slot in (*LAYOUT.scalar, *LAYOUT.bags)), inputs.dense[0]])
    for i, activation in ((1, jax.nn.relu), (2, lambda x: x)):
        x = activation(x @ values[f"hidden_{i}.kernel"] + values[f"hidden_{i}.bias"])
    expected = x @ values["output.kernel"] + values["output.bias"]
    np.testing.assert_allclose(algorithm.scores(values, inputs)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": ("relu", "dice", "relu")}, "one for each of the 2; got 3"),
        ({"groups": ("user", "item")}, "expects groups of slots in parentheses"),
        ({"groups": ((), ("user",))}, "expects groups of slots in parentheses"),
        ({"groups": (("user", "itm"),)}, "groups of algorithm xnn names 'itm', which is not a slot"),
        ({"groups": (("user", "price"),)}, "names 'price', which is not a slot"),
        ({"groups": (("user", "item"), ("tags", "user"))}, "names user twice"),
    ],
)
def test_activations_and_groups_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        xnn(XnnOptions(**options), LAYOUT)


def test_several_labels_have_an_output_and_weights_each() -> None:
    layout = LAYOUT._replace(labels=("click", "buy"))
    algorithm = xnn(XnnOptions(dim=DIM, hidden=(5,), interaction="pairs"), layout)
    values, inputs = parameters(algorithm), random_inputs()
    scores = algorithm.scores(values, inputs)
    assert scores.shape == (BATCH, 2)
    one = xnn(XnnOptions(dim=DIM, hidden=(5,), interaction="pairs"), LAYOUT)
    for label in range(2):
        outputs = {name: values[name][..., [label]] for name in ("output.kernel", "output.bias", "weights")}
        np.testing.assert_allclose(scores[:, [label]], one.scores({**values, **outputs}, inputs), rtol=1e-5)


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    "options",
    [
        {"activation": ("dice",), "residual": True, "hidden": (8, 8)},
        {"normalise": "layer_norm", "continuous": "log1p"},
        {"groups": (("user", "tags"),), "interaction": "bi", "long_dim": 2},
        {"hidden": ()},
        {"loss": "squared", "dropout": 0.5},
        {"long_dim": 4, "interaction": "bi"},
    ],
)
def test_every_option_gives_finite_scores_and_gradients_for_every_parameter(options: dict[str, Any]) -> None:
    algorithm = xnn(XnnOptions(dim=DIM, **options), LAYOUT)
    inputs = random_inputs()._replace(random=np.array([1, 2], np.uint32))
    gradients = jax.grad(lambda values: algorithm.scores(values, inputs).sum())(parameters(algorithm))
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all(), name
        assert np.abs(gradient).max() > 0, name


def test_dropout_is_a_function_of_its_seed_and_absent_from_scoring() -> None:
    layer = Layer("one", 1, 3, 4000, "linear", dropout=0.25)
    x, kernel = jnp.ones((2, 3)), {"one.kernel": jnp.ones((3, 4000)), "one.bias": jnp.zeros(4000)}
    seeds = [jnp.array(seed, jnp.uint32) for seed in ((1, 2), (1, 2), (1, 3))]
    first, again, other = (np.asarray(layer.apply(kernel, x, seed)) for seed in seeds)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first[0] != first[1]).any()
    assert (first == 0).mean() == pytest.approx(0.25, abs=0.03)
    assert first.mean() == pytest.approx(3, abs=0.1)
    np.testing.assert_array_equal(np.asarray(layer.apply(kernel, x, None)), 3)


def test_layer_norm_centres_and_scales_each_example() -> None:
    x = np.random.default_rng(5).normal(3, 7, (4, 50)).astype(np.float32)
    normalised = np.asarray(layer_norm(jnp.asarray(x)))
    np.testing.assert_allclose(normalised.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(normalised.std(axis=1), 1, atol=1e-3)


@pytest.mark.parametrize("hidden", [(128, 0), ("wide",), (1.5,), (True,)])
def test_layers_without_a_number_of_units_are_refused(hidden: tuple[object, ...]) -> None:
    with pytest.raises(OptionError, match="expects whole numbers of units"):
        xnn(XnnOptions(hidden=hidden), LAYOUT)
