"""SLRM: sparse linear recommendation, a weight for each ordered pair of items: having the one speaks for the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject, suggestion
from ...platform.operators.base import Operator, TableSpec
from ...platform.operators.ftrl import FtrlOptions, ftrl
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Negatives, Online, Pairs, Supervised
from ..linear.scores import linear_scores
from ..losses import LOGLOSS

SUBJECT = Subject("USING", "slrm")


@dataclass(frozen=True)
class SlrmOptions:
    item: str = option("item", "the slot of the item that was taken or offered")
    history: str = option("history", "the array slot of the items that the user has")
    negatives: int = option(
        20, "items drawn at random as not taken, for each row; 0 where the data has rows of label 0", minimum=0, maximum=1000
    )
    power: float = option(
        0.5,
        "negatives are drawn by count^power: 1 recommends less popular items, 0 more popular ones",
        minimum=-2,
        maximum=2,
        needs=(when("negatives"),),
    )
    alpha: float = option(
        0.5,
        "learning rate; lower it for long logs",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    l1: float = option(0.5, "L1 penalty; raise it for fewer pairs", minimum=0, optimizer=True)
    l2: float = option(1.0, "L2 penalty; raise it where pairs are seen seldom", minimum=0, optimizer=True)


def slrm(options: SlrmOptions, layout: Layout) -> Algorithm:
    """Learn sparse weights of ordered pairs of items from a stream: score = b + share x sum over the history of w(had, item).

    The share of a history of n items is sqrt(8 / n), and 1 up to 8 items, so that one learning rate suits short and long
    histories.

    A row says that a user with a history took an item (label 1) or did not (0). Rows of random items are added as not
    taken, with the pairs that other rows have. With WITH (share = (history AS item)), items that the user has are not
    added, and no item has a pair with itself. A pair is a feature: its key is the upper half of the item's key, then the
    upper half of the key of the item in the history. ML.RELATED returns the pairs as a table of items, related items and
    scores.

    Source: Ning and Karypis, "SLIM: Sparse Linear Methods for Top-N Recommender Systems", ICDM 2011, with logistic instead of
    squared loss and random zeros instead of all; learned by FTRL-proximal, whose L1 keeps weights at 0: McMahan et al., "Ad
    Click Prediction: a View from the Trenches", KDD 2013.

    Raises:
        OptionError: a named slot is missing, or there are others.
    """
    pairs = Pairs(place(options.item, layout.scalar, "item"), place(options.history, layout.bags, "history"), alone=True)
    item, history = (layout.scalar[pairs.item],), (layout.bags[pairs.history],)
    if layout.offered:
        message = f"{SUBJECT} takes no rates of items: its features are pairs of items only."
        raise OptionError(message, subject=SUBJECT)
    if len(layout.slots) > 2:
        others = [slot for slot in layout.slots if slot.lower() not in (options.item.lower(), options.history.lower())]
        raise OptionError(
            f"{SUBJECT} learns only from an item and a history; leave {others[0]} out or name it in IGNORE.", subject=SUBJECT
        )

    drawn = (Negatives(options.negatives, options.power, item, history),) if options.negatives else ()

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(alpha=options.alpha, l1=options.l1, l2=options.l2), table)

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        return linear_scores(parameters["weights"], inputs)

    return Algorithm(
        tables=(TableSpec("weights", 1),),
        optimizer=optimizer,
        learns=Online(
            Supervised(scores, LOGLOSS._replace(baseline=None)),  # a log without negatives has few rows of label 0
            augment=(*drawn, pairs),
        ),
    )


def place(name: str, slots: tuple[str, ...], what: str) -> int:
    """Return where a slot stands among others, compared without case."""
    lowered = [slot.lower() for slot in slots]
    if name.lower() not in lowered:
        kind, option = "categorical" if what == "item" else "array", SUBJECT._replace(option=what)
        raise OptionError(
            f"{option} names {name!r}, which is no {kind} slot.{suggestion(name, slots)} Set {what} = the slot's name.",
            subject=option,
        )
    return lowered.index(name.lower())


SLRM = Part("slrm", SlrmOptions, slrm)
