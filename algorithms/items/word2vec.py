"""Word2Vec: a vector per feature, such that features which stand near each other in sequences have vectors that point alike."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...platform.errors import OptionError, Subject
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import Operator, TableSpec
from ...platform.options import Part, option
from ...platform.registry import UNLABELLED
from ..base import Algorithm, Inputs, Layout, Online, Output, Parameters, Sampling, Sizing, Unsupervised
from ..layers.initial import uniform
from ..layers.lookups import gathered, taken

SUBJECT = Subject("USING", "word2vec")
NEAR = 32  # values whose windows are computed together
BLOCK = 128  # values of sequences that share negatives
SHARED = 32  # negatives that they share
GROUPS = 32  # different ones of a batch
SHORT = 200_000  # sequences, of which a pass is enough
SMALLEST = 1e-6


@dataclass(frozen=True)
class Word2VecOptions:
    dim: int = option(64, "elements of a vector; 100 to 300 for large vocabularies", minimum=1, maximum=1024)
    window: int = option(
        5, "largest distance of two values of a sequence; larger for topics, smaller for substitutes", minimum=1, maximum=50
    )
    negatives: int = option(
        5, "random features that each pair is contrasted with (negative samples); more for short data", minimum=1, maximum=1000
    )
    power: float = option(0.75, "negatives are drawn by count^power; 0 or less favours rare features", minimum=-2, maximum=2)
    frequent: float = option(
        1e-3,
        "features with more than this share of all values count less; 1 for never",
        minimum=0,
        open_minimum=True,
        maximum=1,
    )
    learning_rate: float = option(0.5, "learning rate; lower it for many passes", minimum=0, open_minimum=True, optimizer=True)


def word2vec(options: Word2VecOptions, layout: Layout) -> Algorithm:
    """Learn vectors from sequences, skip-gram with negative sampling: array columns, without a label.

    A sequence's loss is the sum over its pairs (i, j) at distance d <= window, in both directions, each with weight
    (window - d + 1) / window, what a window of random size gives it on average:

        log(1 + exp(-<v_i, c_j>)) + negatives x mean over random features k of log(1 + exp(<v_i, c_k>))

    Features that make up a share f of all values above `frequent` count sqrt(frequent / f), what leaving them out at random
    gives on average. Neighbouring values share their random features, so that a batch is a few products of matrices.
    Training's metric is `mae`, the mean over sequences of that loss over the weights of the sequence's pairs x (1 + negatives),
    ln 2 where nothing is learned; a sequence without pairs has 0. ML.PREDICT gives a sequence's mean vector, predicted_vector.

    Source: Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality", NeurIPS 2013,
    equation 4 and section 2.3; negatives shared by neighbours: Ji et al., "Parallelizing Word2Vec in Shared and Distributed
    Memory", 2016.
    """
    check_sequences(layout)
    bags = len(layout.bags)

    def optimizer(table: TableSpec) -> Operator:
        return adagrad(AdagradOptions(learning_rate=options.learning_rate), table)

    def objective(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return the loss of each sequence, and that over its pairs, float32[batch, 1] both."""
        centres = gathered(parameters["vectors"], inputs.bags.rows[None])[:, 0]
        contexts = gathered(parameters["contexts"], inputs.bags.rows[None])[:, 0]
        losses, pairs = window_losses(
            centres, contexts, inputs.bags.example * bags + inputs.bags.slot, inputs.bags.weight, options.window
        )
        if inputs.sampled is not None:
            others = gathered(parameters["contexts"], inputs.sampled[None])[:, 0]
            losses += options.negatives * pairs * random_losses(centres, others)
        both = jnp.stack([losses, pairs * (1 + options.negatives)], axis=1)
        summed = jax.ops.segment_sum(both, inputs.bags.example, num_segments=inputs.batch)
        return summed[:, :1], summed[:, :1] / jnp.maximum(summed[:, 1:], SMALLEST)

    vectors = TableSpec("vectors", options.dim, uniform(0.3 / options.dim, options.dim))
    return Algorithm(
        tables=(vectors, TableSpec("contexts", options.dim)),
        optimizer=optimizer,
        learns=Online(Unsupervised(objective), augment=(Sampling(GROUPS * SHARED, options.power, options.frequent),)),
        outputs={"vector": Output(mean_vectors, vector=True)},
        intercept=None,
        sizing=Sizing(least_batch=256, least_examples=SHORT),
    )


def window_losses(
    centres: jax.Array, contexts: jax.Array, sequence: jax.Array, weight: jax.Array, window: int
) -> tuple[jax.Array, jax.Array]:
    """Return, for each value, the weighted loss of predicting the values near it, summed, and the sum of weights.

    Args:
        centres, contexts: float32[n, dim], both vectors of each value.
        sequence: int32[n], which one it belongs to; values of one stand together.
        weight: float32[n].

    Returns:
        float32[n] both.
    """
    n, size = len(sequence), max(NEAR, window)
    blocks = -(-n // size)

    def blocked(values: jax.Array, rest: float) -> jax.Array:
        whole = jnp.pad(values, ((0, blocks * size - n), *((0, 0),) * (values.ndim - 1)), constant_values=rest)
        return whole.reshape(blocks, size, *values.shape[1:])

    def around(values: jax.Array) -> jax.Array:
        """Return each block with the `window` values before and after it."""
        none = jnp.zeros_like(values[:1])
        before, after = jnp.concatenate([none, values[:-1]]), jnp.concatenate([values[1:], none])
        return jnp.concatenate([before[:, size - window :], values, after[:, :window]], axis=1)

    distance = jnp.abs(jnp.arange(size)[:, None] - jnp.arange(-window, size + window)[None])
    share = jnp.where(distance > 0, jnp.maximum(window - distance + 1, 0) / window, 0)
    which, strength = blocked(sequence, -1), blocked(weight, 0)
    near = (which[:, :, None] == around(which)[:, None]) * share * strength[:, :, None] * around(strength)[:, None]
    scores = jnp.einsum("bnd,bmd->bnm", blocked(centres, 0), around(blocked(contexts, 0)))
    losses = (near * jax.nn.softplus(-scores)).sum(axis=2)
    return losses.reshape(-1)[:n], near.sum(axis=2).reshape(-1)[:n]


def random_losses(centres: jax.Array, others: jax.Array) -> jax.Array:
    """Return the mean loss of distinguishing each value from random features, float32[n]; blocks of values share them.

    Args:
        centres: float32[n, dim].
        others: float32[GROUPS * SHARED, dim].
    """
    n, dim = centres.shape
    blocks = -(-n // BLOCK)
    grouped = jnp.pad(centres, ((0, blocks * BLOCK - n), (0, 0))).reshape(blocks, BLOCK, dim)
    theirs = others.reshape(GROUPS, SHARED, dim)[jnp.arange(blocks) % GROUPS]
    scores = jnp.einsum("bnd,bkd->bnk", grouped, theirs)
    return jax.nn.softplus(scores).mean(axis=2).reshape(-1)[:n]


def mean_vectors(parameters: Parameters, inputs: Inputs) -> jax.Array:
    """Return the mean vector of each example's values, float32[batch, dim]; zeros where it has none that is known."""
    values = taken(parameters["vectors"], inputs.bags.rows)
    known = (jnp.abs(values).sum(axis=1) > 0) & (inputs.bags.weight > 0)
    summed = jax.ops.segment_sum(
        jnp.concatenate([values, known[:, None]], axis=1) * known[:, None], inputs.bags.example, num_segments=inputs.batch
    )
    return summed[:, :-1] / jnp.maximum(summed[:, -1:], 1)


def check_sequences(layout: Layout) -> None:
    """Raise OptionError unless there are array columns and no others."""
    if layout.offered:
        message = f"{SUBJECT} takes no rates of clicks: it learns which values occur together, without labels."
        raise OptionError(message, subject=SUBJECT)
    others = [slot for slot in layout.slots if slot not in layout.bags]
    if others or not layout.bags:
        found = f"{others[0]} is none; leave it out or name it in IGNORE" if others else "there is none"
        message = f"{SUBJECT} learns from sequences, columns of type array<string> or array<bigint>: {found}."
        raise OptionError(message, subject=SUBJECT)


WORD2VEC = Part("word2vec", Word2VecOptions, word2vec, UNLABELLED)
