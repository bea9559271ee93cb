"""LINE: a vector per vertex of a graph, by its edges."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...platform.errors import OptionError, Subject
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import Operator, TableSpec
from ...platform.options import Part, option
from ...platform.registry import UNLABELLED
from ..base import Algorithm, Inputs, Layout, Online, Output, Parameters, Sampling, Sizing, Traits, Unsupervised
from ..layers.initial import uniform
from ..layers.lookups import gathered
from .word2vec import GROUPS, SHARED, random_losses

SUBJECT = Subject("USING", "line")
MANY = 1_000_000  # edges, of which a pass is enough
SMALLEST = 1e-12
ALIKE, NEAR = ("alike", "alike"), ("vectors", "contexts")
PAIRS = {1: (ALIKE,), 2: (NEAR,), 12: (ALIKE, NEAR)}
"""By order: the tables of sources and of targets."""


@dataclass(frozen=True)
class LineOptions:
    order: int = option(
        2, "1: ends of edges are alike; 2: vertices with the same neighbours are; 12: both", minimum=1, maximum=12
    )
    dim: int = option(64, "elements of a vector; of order 12 of each of both", minimum=1, maximum=1024)
    negatives: int = option(5, "random vertices that each edge is contrasted with", minimum=1, maximum=1000)
    power: float = option(0.75, "these are drawn by count^power", minimum=-2, maximum=2)
    learning_rate: float = option(0.3, "learning rate", minimum=0, open_minimum=True, optimizer=True)


def line(options: LineOptions, layout: Layout) -> Algorithm:
    """Learn vectors of vertices from edges, SOURCE to TARGET, each as much as its WEIGHT.

    The loss of an edge (i, j), sigma the logistic function, u and c vectors and contexts, k random vertices, is of order 2

        -log sigma(<u_i, c_j>) - negatives x mean over k of log sigma(-<u_i, c_k>)

    and of order 1 the same with u in place of c. Edges of a block share their random vertices, so that a batch is a few
    products of matrices. An edge without one of its ends adds nothing. Training's metric is `mae`, the mean of the loss over
    1 + negatives, ln 2 where nothing is learned. ML.PREDICT gives the vector of the source, of order 12 both, each of length 1,
    as predicted_vector, and sigma of the product with the target's as predicted_link.

    Source: Tang et al., "LINE: Large-scale Information Network Embedding", WWW 2015, equations 3 and 7; random vertices shared:
    Ji et al., "Parallelizing Word2Vec in Shared and Distributed Memory", 2016.
    """
    check_edges(options, layout)
    pairs = PAIRS[options.order]

    def optimizer(table: TableSpec) -> Operator:
        return adagrad(AdagradOptions(learning_rate=options.learning_rate), table)

    def ends(parameters: Parameters, inputs: Inputs, own: str, other: str) -> tuple[jax.Array, jax.Array]:
        source, target = (gathered(parameters[name], inputs.scalar)[:, at] for at, name in enumerate((own, other)))
        return source, target

    def losses(parameters: Parameters, inputs: Inputs, own: str, other: str) -> jax.Array:
        source, target = ends(parameters, inputs, own, other)
        found = jax.nn.softplus(-jnp.einsum("bd,bd->b", source, target))
        if inputs.sampled is not None:
            others = gathered(parameters[other], inputs.sampled[None])[:, 0]
            found += options.negatives * random_losses(source, others)
        return found

    def objective(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        there = (jnp.abs(gathered(parameters[pairs[0][0]], inputs.scalar)).sum(axis=2) > 0).all(axis=1)
        summed = sum(losses(parameters, inputs, *pair) for pair in pairs) * there
        return summed[:, None], summed[:, None] / (len(pairs) * (1 + options.negatives))

    def vector(parameters: Parameters, inputs: Inputs) -> jax.Array:
        found = [gathered(parameters[own], inputs.scalar[:1])[:, 0] for own, _ in pairs]
        return found[0] if len(found) == 1 else jnp.concatenate([normed(one) for one in found], axis=1)

    def link(parameters: Parameters, inputs: Inputs) -> jax.Array:
        products = [jnp.einsum("bd,bd->b", *ends(parameters, inputs, *pair)) for pair in pairs]
        return jax.nn.sigmoid(sum(products))

    names = {name: TableSpec(name, options.dim) for pair in pairs for name in pair}
    start = uniform(0.5 / options.dim, options.dim)
    return Algorithm(
        tables=tuple(table if name == "contexts" else table._replace(init=start) for name, table in names.items()),
        optimizer=optimizer,
        learns=Online(Unsupervised(objective), augment=(Sampling(GROUPS * SHARED, options.power, 1.0),)),
        outputs={"vector": Output(vector, vector=True), "link": Output(link)},
        intercept=None,
        sizing=Sizing(least_batch=256, least_examples=MANY),
        traits=Traits(edges=True),
    )


def check_edges(options: LineOptions, layout: Layout) -> None:
    """Raise OptionError unless slots are the ends of edges, and the order is one that there is."""
    if options.order not in PAIRS:
        raise OptionError(f"{SUBJECT} takes order = 1, 2 or 12, got {options.order}.", subject=SUBJECT._replace(option="order"))
    if len(layout.slots) != 2 or len(layout.scalar) != 2 or layout.offered:
        raise OptionError(
            f"{SUBJECT} learns from the ends of edges alone: name them by SOURCE `column` TARGET `column`, how much an edge "
            "counts by WEIGHT, and others in IGNORE.",
            subject=SUBJECT,
        )


def normed(vectors: jax.Array) -> jax.Array:
    """Return vectors of length 1."""
    return vectors / jnp.sqrt(jnp.maximum((vectors * vectors).sum(axis=1, keepdims=True), SMALLEST))


LINE = Part("line", LineOptions, line, UNLABELLED)
