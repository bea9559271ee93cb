"""XSVD: SVD++ with side features, learned from a stream: what a user, and what was seen of him, has in common with an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..platform.errors import OptionError, suggestion
from ..platform.operators.base import Operator, TableSpec
from ..platform.operators.ftrl import FtrlOptions, ftrl
from ..platform.options import Part, option
from .base import Algorithm, Inputs, Layout
from .initial import uniform
from .linear import linear_scores
from .losses import LossOptions, loss_of
from .pooling import all_vectors


@dataclass(frozen=True)
class XsvdOptions(LossOptions):
    user: tuple = option(("user",), "slots that describe the user: id, profile, session")  # type: ignore[type-arg]
    item: tuple = option(("item",), "slots that describe the item: id, side features")  # type: ignore[type-arg]
    feedback: tuple = option((), "multi-valued slots of items that the user gave feedback on")  # type: ignore[type-arg]
    dim: int = option(16, "elements of a feature's vector", minimum=1, maximum=1024)
    alpha: float = option(0.1, "learning rate of the weights", minimum=0, open_minimum=True)
    vector_alpha: float = option(0.05, "learning rate of the vectors", minimum=0, open_minimum=True)
    init_scale: float = option(0.05, "standard deviation of new vectors", minimum=0)
    intercept: bool = option(True, "learn an intercept")


def xsvd(options: XsvdOptions, layout: Layout) -> Algorithm:
    """Learn weights of all features, and vectors whose inner product is the match of user and item, by FTRL-proximal.

        score = b + sum of weights + <sum of item vectors, sum of user vectors + |N|^(-1/2) sum of feedback vectors>

    N are the items of a feedback slot. WITH (share = (history AS item)) lets them use the items' own rows, which halves what is
    to be learned. Slots that are in no list have weights only: cross(item, history_item) gives the item-pair weights of SLIM.

    Source: Koren, "Factorization Meets the Neighborhood", KDD 2008, equation 15; Chen et al., "SVDFeature", JMLR 2012, for side
    features; Ning and Karypis, "SLIM", ICDM 2011, for weights of pairs of items.
    """
    loss = loss_of(options)
    user = places(options.user, layout.slots, "user")
    item = places(options.item, layout.slots, "item")
    feedback = places(options.feedback, layout.bags, "feedback", len(layout.scalar))

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(alpha=options.alpha if table.name == "weights" else options.vector_alpha), table)

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        vectors = all_vectors(parameters["vectors"], inputs, layout, "root")
        theirs = vectors[:, jnp.array(item)].sum(axis=1)
        own = vectors[:, jnp.array(user + feedback)].sum(axis=1)
        return linear_scores(parameters["weights"], inputs) + (own * theirs).sum(axis=1, keepdims=True)

    return Algorithm(
        tables=(TableSpec("weights", 1), TableSpec("vectors", options.dim, uniform(options.init_scale, options.dim))),
        optimizer=optimizer,
        scores=scores,
        link=loss.link,
        loss=loss.value,
        classifier=loss.classifier,
        intercept=options.intercept,
    )


def places(names: tuple[object, ...], slots: tuple[str, ...], what: str, first: int = 0) -> list[int]:
    """Return where the slots of an option stand among all, compared without case; `first` is where `slots` begin.

    Raises:
        OptionError: a name is none of the slots, or an option that needs one is empty.
    """
    lowered = [slot.lower() for slot in slots]
    for name in names:
        if str(name).lower() not in lowered:
            raise OptionError(
                f"option {what} of algorithm xsvd names {name!r}, which is no such slot.{suggestion(str(name), slots)}"
            )
    if not names and what != "feedback":
        raise OptionError(f"option {what} of algorithm xsvd expects one or more slots, like {what} = (id).")
    return [first + lowered.index(str(name).lower()) for name in names]


XSVD = Part("xsvd", XsvdOptions, xsvd)
