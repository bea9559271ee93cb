"""xpsql.TargetAttention: what din has, for networks that users write, over a batch or one example."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.docs.blocks import blocks
from xpsql.algorithms.bridges.features import FeatureValues
from xpsql.algorithms.layers.attention import Attention

BATCH, LENGTH, DIM = 5, 7, 4
FEATURES = xpsql.Features(("user", "item", "kind"), (), ("clicked", "kinds"), ("item", "kind"), ("click",), DIM)


def values(features: xpsql.Features) -> FeatureValues:
    random = np.random.default_rng(1)
    mask = jnp.arange(LENGTH) < jnp.array([7, 0, 1, 3, 5])[:, None]
    history = {
        name: (jnp.asarray(random.normal(size=(BATCH, LENGTH, DIM)), jnp.float32) * mask[..., None], mask)
        for name in features.histories
    }
    slots = jnp.asarray(random.normal(size=(BATCH, len(features.slots), DIM)), jnp.float32)
    return FeatureValues(slots, jnp.zeros((BATCH, 0)), jnp.zeros((BATCH, 1)), history, features)


@lengthy
@costly_after_first
@pytest.mark.parametrize(("activation", "softmax"), [("dice", True), ("sigmoid", False)])
def test_it_is_the_attention_of_din_for_a_batch_and_for_an_example(activation: str, softmax: bool) -> None:
    made, x = xpsql.TargetAttention(FEATURES, (8, 4), activation, softmax), values(FEATURES)
    parameters = made.init(jax.random.key(3))
    found, pull_back = jax.vjp(lambda own: made(own, x), parameters)
    assert found.shape == (BATCH, made.width)
    assert not found[1].any()  # an empty history
    whole = Attention("attention", 0, 2 * DIM, (8, 4), (activation,) * 2, softmax)
    own = {spec.name: parameters[spec.name.replace(".", "_")] for spec in whole.specs}
    vectors, mask = x.elements
    wanted = whole.pooled(own, x.target, whole.of_vectors(own, vectors, mask))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    alone = jax.vmap(lambda own, x: made(own, x), in_axes=(None, 0))
    each, pull_each_back = jax.vjp(lambda own: alone(own, x), parameters)
    np.testing.assert_allclose(each, found, rtol=1e-5, atol=1e-6)
    for one, other in zip(*(jax.tree.leaves(pull(jnp.ones_like(found))) for pull in (pull_back, pull_each_back)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@costly
def test_the_network_of_the_page_has_a_score_for_each_example() -> None:
    text = [block.text for block in blocks("docs/networks.md") if block.language == "python"][1]
    network: dict[str, object] = {}
    exec(text, network)
    features = FEATURES._replace(histories=("clicked",), target=("item",))
    parameters = network["init"](jax.random.key(1), features)  # type: ignore[operator]
    scores = network["apply"](parameters, values(features))  # type: ignore[operator]
    assert scores.shape == (BATCH, 1)
    assert np.std(scores) > 0


def test_what_it_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="got 2 and 1"):
        xpsql.TargetAttention(FEATURES._replace(target=("item",)))
    with pytest.raises(ValueError, match="got 'running_dice'"):
        xpsql.TargetAttention(FEATURES, activation="running_dice")
