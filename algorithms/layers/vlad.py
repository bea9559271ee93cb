"""Pooling by clusters (NetVLAD, NeXtVLAD): residuals of a set of vectors to learned centres, by soft assignment."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from .dense_layers import Parameters, branch, he_uniform

SMALLEST = 1e-8
GROUPS, EXPANSION = 8, 2  # of the paper


class NetVlad:
    """The residuals of vectors x_i to centres c_k, each cluster's sum divided by its length, and all by theirs.

        a_ik = softmax over k of (x_i kernel + bias)_k;   v_k = sum_i a_ik (x_i - c_k)

    Source: Arandjelovic et al., "NetVLAD: CNN architecture for weakly supervised place recognition", CVPR 2016.

    Args:
        name: of the parameters, which begin with it.
        number: of its first values; see Layer.
        width: of a vector.

    Attributes:
        specs: the dense parameters.
        outputs: floats of what it makes of a set.
    """

    def __init__(self, name: str, number: int, width: int, clusters: int) -> None:
        self._name, self._clusters = name, clusters
        self.outputs = clusters * width
        self.specs = (
            DenseSpec(f"{name}.kernel", (width, clusters), he_uniform(number, width, clusters)),
            DenseSpec(f"{name}.bias", (clusters,), None),
            DenseSpec(f"{name}.centres", (clusters, width), spread(number + 1, clusters, width)),
        )

    def apply(self, parameters: Parameters, x: jax.Array, mask: jax.Array) -> jax.Array:
        """Return float32[batch, outputs]; zeros of an empty set.

        Args:
            x: float32[batch, L, width].
            mask: bool[batch, L], which vectors are there.
        """
        kernel, bias, centres = (parameters[f"{self._name}.{name}"] for name in ("kernel", "bias", "centres"))
        near = jnp.where(mask[:, :, None], jax.nn.softmax(x @ kernel + bias, axis=2), 0)
        return normalised(jnp.einsum("blk,bld->bkd", near, x) - near.sum(axis=1)[:, :, None] * centres)


class NextVlad:
    """The same of vectors that are made `EXPANSION` times as wide and cut into groups, each of which attention weighs.

        x' = x expansion;   b_ig = sigmoid(x'_i attention)_g;   a_igk = softmax over k of (x'_i kernel)_gk
        v_k = sum_ig b_ig a_igk (x'_ig - c_k)

    So a cluster has `EXPANSION / groups` as many floats as a vector.

    Source: Lin et al., "NeXtVLAD: An Efficient Neural Network to Aggregate Frame-level Features for Large-scale Video
    Classification", ECCV 2018 workshops; without its batch normalisations.

    Args, attributes: see NetVlad.
    """

    def __init__(self, name: str, number: int, width: int, clusters: int) -> None:
        self._name, self._clusters = name, clusters
        self._part = -(-EXPANSION * width // GROUPS)
        expanded = self._part * GROUPS
        self.outputs = clusters * self._part
        self.specs = (
            DenseSpec(f"{name}.expansion", (width, expanded), he_uniform(number, width, expanded)),
            DenseSpec(f"{name}.attention", (expanded, GROUPS), he_uniform(number + 1, expanded, GROUPS)),
            DenseSpec(f"{name}.attention_bias", (GROUPS,), None),
            DenseSpec(f"{name}.kernel", (expanded, GROUPS * clusters), he_uniform(number + 2, expanded, GROUPS * clusters)),
            DenseSpec(f"{name}.bias", (GROUPS * clusters,), None),
            DenseSpec(f"{name}.centres", (clusters, self._part), spread(number + 3, clusters, self._part)),
        )

    def apply(self, parameters: Parameters, x: jax.Array, mask: jax.Array) -> jax.Array:
        """See NetVlad.apply."""
        own = branch(parameters, self._name)
        batch, length, _ = x.shape
        wide = x @ own["expansion"]
        weight = jnp.where(mask[:, :, None], jax.nn.sigmoid(wide @ own["attention"] + own["attention_bias"]), 0)
        scores = (wide @ own["kernel"] + own["bias"]).reshape(batch, length, GROUPS, self._clusters)
        near = jax.nn.softmax(scores, axis=3) * weight[:, :, :, None]
        parts = wide.reshape(batch, length, GROUPS, self._part)
        return normalised(jnp.einsum("blgk,blgd->bkd", near, parts) - near.sum(axis=(1, 2))[:, :, None] * own["centres"])


VLADS: dict[str, Callable[[str, int, int, int], NetVlad | NextVlad]] = {"netvlad": NetVlad, "nextvlad": NextVlad}


def normalised(v: jax.Array) -> jax.Array:
    """Return the vectors of clusters float32[batch, clusters, k], each over its length, side by side over theirs."""
    v = v * jax.lax.rsqrt((v * v).sum(axis=2, keepdims=True) + SMALLEST)
    flat = v.reshape(v.shape[0], -1)
    return flat * jax.lax.rsqrt((flat * flat).sum(axis=1, keepdims=True) + SMALLEST)


def spread(number: int, clusters: int, width: int) -> Callable[[int], jax.Array]:
    """Return an initializer of centres, uniform around 0."""

    def init(seed: int) -> jax.Array:
        key = jax.random.fold_in(jax.random.key(seed), number)
        return jax.random.uniform(key, (clusters, width), minval=-INITIAL, maxval=INITIAL)

    return init


INITIAL = 0.01  # as new vectors of features
