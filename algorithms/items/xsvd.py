"""XSVD: SVD++ with side features, learned from a stream: what a user, and the user's feedback, has in common with an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.operators.base import Context, Operator, Rows, TableSpec
from ...platform.operators.ftrl import FtrlOptions, ftrl
from ...platform.options import Part, option
from ..augments.pairs import PAIRS_NUMBER
from ..base import Algorithm, Inputs, Intercept, Layout, Negatives, Online, Pairs, Sizing, Supervised
from ..layers.initial import uniform
from ..layers.pooling import all_vectors, first_bags, first_values
from ..linear.scores import linear_scores
from ..losses import LossOptions, loss_of
from ..positions import places

SUBJECT = Subject("USING", "xsvd")
ITEM = SUBJECT._replace(option="item")
SHORT = 1_000_000  # rows of what was taken, of which a pass is enough


@dataclass(frozen=True)
class XsvdOptions(LossOptions):
    user: tuple = option(  # type: ignore[type-arg]
        ("user",), "slots that describe the user: id, profile, session; () if feedback is enough"
    )
    item: tuple = option(("item",), "slots that describe the item: id first, then side features")  # type: ignore[type-arg]
    feedback: tuple = option((), "multi-valued slots of items that the user gave feedback on")  # type: ignore[type-arg]
    feedback_items: int = option(
        0,
        "how many items of each feedback slot are read, the first ones; 0 for all; fewer if old items say little",
        minimum=0,
        maximum=2**31 - 1,
        needs=(when("feedback"),),
    )
    slim: bool = option(
        False,
        "learn a weight for each pair of the item's id and an item of feedback, as slrm does; for short histories",
        needs=(when("feedback"),),
    )
    negatives: int = option(
        0, "items drawn at random as not taken, for each row; 20 where the data has no rows of label 0", minimum=0, maximum=1000
    )
    power: float = option(
        0.5,
        "negatives are drawn by count^power: 1 recommends less popular items, 0 more popular ones",
        minimum=-2,
        maximum=2,
        needs=(when("negatives"),),
    )
    dim: int = option(
        16, "elements of a feature's vector; 32 or 64 for catalogues of thousands of items", minimum=1, maximum=1024
    )
    alpha: float = option(
        0.1, "learning rate of the weights; raise it for short logs", minimum=0, open_minimum=True, optimizer=True
    )
    vector_alpha: float = option(
        0.05,
        "learning rate of the vectors; 0.1 with several passes for short logs",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    init_scale: float = option(0.05, "standard deviation of new vectors; raise it where they stay small", minimum=0)
    intercept: bool = option(True, "learn an intercept; false if a score without features must be 0")


def sides_of(options: XsvdOptions, layout: Layout) -> tuple[list[int], list[int], list[int]]:
    """Return the places of the slots of the user, of the item and of feedback.

    Raises:
        OptionError: a side has none, or a slot is named twice: its vector would be summed twice, or match itself.
    """
    if not options.item:
        raise OptionError(f"{ITEM} expects one or more slots, like item = (id).", subject=ITEM)
    if not (options.user or options.feedback):
        raise OptionError(f"{SUBJECT} expects slots of the user or of feedback, like user = (id).", subject=SUBJECT)
    user = places(options.user, layout.slots, SUBJECT._replace(option="user"))
    item = places(options.item, layout.slots, ITEM)
    feedback = places(options.feedback, layout.bags, SUBJECT._replace(option="feedback"), len(layout.scalar))
    named = [*user, *item, *feedback]
    twice = next((layout.slots[place] for place in named if named.count(place) > 1), None)
    if twice is not None:
        message = f"{SUBJECT}: user, item and feedback name the slot {twice} twice; name it once."
        raise OptionError(message, subject=SUBJECT)
    return user, item, feedback


def xsvd(options: XsvdOptions, layout: Layout) -> Algorithm:
    """Learn weights of all features, and vectors whose inner product is the match of user and item, by FTRL-proximal.

        score = b + sum of weights + <sum of item vectors, sum of user vectors + |N|^(-1/2) sum of feedback vectors>

    N are the items of a feedback slot, or the first `feedback_items` of them. With WITH (share = (history AS item)) they
    use the items' own rows, which halves what is to be learned. Vectors of other slots of several values, such as tags of
    an item, are summed as feedback is, over the root of their number; in a map, over the root of the sum of its numbers
    without sign. Slots that are in no list have only weights.

    With `slim` the score has an additional weight for each pair of the item's id and another item of a feedback slot. A
    pair is a feature of the slot "(pairs)", with a weight and no vector. Rows that `negatives` adds learn only pairs that
    other rows have. ML.RELATED lists the pairs.

    A log of items taken, which has only label 1, needs `negatives`: after each row, so many rows are added, with the slots
    of the item of another row and label 0. An added row has weight 0 if its item is the item taken, or one in a feedback
    slot that shares the items' rows. All added rows are in the counts and metrics of the training. With few items, those of
    weight 0 raise its pcopc and lower its auc.

    Source: Koren, "Factorization Meets the Neighborhood", KDD 2008, equation 15; Chen et al., "SVDFeature", JMLR 2012, for side
    features; Ning and Karypis, "SLIM", ICDM 2011, for weights of pairs of items.
    """
    loss = loss_of(options)
    user, item, feedback = sides_of(options, layout)
    bags = [place - len(layout.scalar) for place in feedback]
    pairs = pairs_of_items(options, layout, item, bags)
    cut = [*bags, *range(len(layout.bags), len(layout.bags) + len(pairs))]

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(alpha=options.alpha if table.name == "weights" else options.vector_alpha), table)

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        if options.feedback_items:
            inputs = first_values(inputs, len(layout.bags) + len(pairs), cut, options.feedback_items)
        own = first_bags(inputs, len(layout.bags)) if pairs else inputs
        vectors = all_vectors(parameters["vectors"], own, layout, "root")
        theirs = vectors[:, jnp.array(item)].sum(axis=1)
        mine = vectors[:, jnp.array(user + feedback)].sum(axis=1)
        return linear_scores(parameters["weights"], inputs) + (mine * theirs).sum(axis=1, keepdims=True)

    def operators(table: TableSpec) -> tuple[Operator, ...]:
        return (Operator({}, name="slim", admit=no_pairs),) if pairs and table.name == "vectors" else ()

    return Algorithm(
        tables=(TableSpec("weights", 1), TableSpec("vectors", options.dim, uniform(options.init_scale, options.dim))),
        optimizer=optimizer,
        learns=Online(
            Supervised(scores, loss._replace(baseline=None) if options.negatives else loss),
            augment=(*negatives_of(options, layout, item, feedback), *pairs),
        ),
        operators=operators,
        intercept=Intercept(at_mean=True) if options.intercept else None,
        sizing=Sizing(least_examples=SHORT if options.negatives else 0),
    )


def no_pairs(rows: Rows, context: Context) -> jax.Array:
    return context.slot != PAIRS_NUMBER


def pairs_of_items(options: XsvdOptions, layout: Layout, item: list[int], bags: list[int]) -> tuple[Pairs, ...]:
    """Return the pairs of the item's id and each feedback slot that a training makes.

    Args:
        item: places of these slots among all.
        bags: places of the feedback slots among the multi-valued ones.

    Raises:
        OptionError: the item's first slot is not categorical, or values have vectors.
    """
    if not options.slim:
        return ()
    subject = SUBJECT._replace(option="slim")
    if layout.sides:
        raise OptionError(
            f"{subject} goes with slots that have no vectors of the statement. Leave VECTORS out.", subject=subject
        )
    check_id(options, layout, item, "slim", "pairs items")
    return tuple(Pairs(item[0], bag, beside=True) for bag in bags)


def check_id(options: XsvdOptions, layout: Layout, item: list[int], option: str, does: str) -> None:
    """Refuse an item whose first slot is not categorical."""
    if item[0] >= len(layout.scalar):
        subject = SUBJECT._replace(option=option)
        raise OptionError(
            f"{subject} {does} by the first slot of option item, and {options.item[0]} is not categorical. Name the "
            "item's id first; CAST it to BIGINT or STRING.",
            subject=subject,
        )


def negatives_of(options: XsvdOptions, layout: Layout, item: list[int], feedback: list[int]) -> tuple[Negatives, ...]:
    """Return which rows a training adds.

    Args:
        item, feedback: places of these slots among all.

    Raises:
        OptionError: the item's first slot is not categorical.
    """
    if not options.negatives:
        return ()
    check_id(options, layout, item, "negatives", "draws items")
    described, had = (tuple(layout.slots[place] for place in places) for places in (item, feedback))
    return (Negatives(options.negatives, options.power, described, had),)


XSVD = Part("xsvd", XsvdOptions, xsvd)
