"""The conformance suite over every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.algorithms.uses import NETWORK
from tests.cases import lengthy
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Algorithm, Inputs, Layout, Online, Supervised
from xpsql.algorithms.blocks.events import EVENTS, EventSlots
from xpsql.algorithms.blocks.histories import HISTORIES, HistorySlots
from xpsql.algorithms.bridges.network import NetworkOptions
from xpsql.algorithms.items.slrm import SlrmOptions
from xpsql.algorithms.layers.lookups import PREFIX
from xpsql.algorithms.linear.scores import linear_scores
from xpsql.algorithms.linear.xftrl import XftrlOptions, xftrl
from xpsql.algorithms.losses import LOGLOSS
from xpsql.algorithms.networks.dien import DienOptions
from xpsql.algorithms.networks.din import DinOptions
from xpsql.algorithms.networks.final import FinalOptions
from xpsql.algorithms.networks.sequence import SequenceOptions
from xpsql.algorithms.networks.tdm import TdmOptions
from xpsql.algorithms.networks.two_stream import TwoStreamOptions
from xpsql.algorithms.networks.two_tower import TwoTowerOptions
from xpsql.platform.options import Part
from xpsql.platform.registry import EDGES
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial, algorithms

PARTS = {part.name: part for part in ALGORITHMS if part.name != "xgboost" and part.takes != EDGES}
"""All but what is no function of ours, and vertex programs, which have a suite of their own."""


OTHERS = {
    "two_tower": (
        algorithms.LAYOUT,
        TwoTowerOptions(query=("user", "tags", "age"), item=("item", "scores", "price", "embedding"), hidden=(8,)),
    ),
    "final": (algorithms.LAYOUT, FinalOptions(normalise="none")),  # test_batch_norm.py has normalised networks
    "two_stream": (
        algorithms.LAYOUT,
        TwoStreamOptions(normalise="none", first=("user",), second=("tags",)),
    ),
    "word2vec": (algorithms.SEQUENCES, None),
    "line": (Layout(scalar=("user", "item"), labels=()), None),
    "din": (
        algorithms.LAYOUT.having(HISTORIES, [HistorySlots("history", ("users", "items"))]),
        DinOptions(target=("item", "user"), history=("items", "users"), dim=4, hidden=(8,), attention=(8, 4)),
    ),
    "network": (algorithms.LAYOUT, NetworkOptions(source=NETWORK.read_text(encoding="utf-8"), dim=4)),
    "dien": (
        algorithms.LAYOUT.having(HISTORIES, [HistorySlots("history", ("users", "items"))]),
        DienOptions(target=("item", "user"), history=("items", "users"), dim=4, hidden=(8,), attention=(8, 4)),
    ),
    "tdm": (
        algorithms.LAYOUT.having(HISTORIES, [HistorySlots("history", ("items",))]),
        TdmOptions(item=("item",), history=("items",), dim=4, hidden=(8,)),
    ),
    "sequence": (
        Layout(scalar=("item", "hour")).having(EVENTS, [EventSlots(("user", "ts"), 8)]),
        SequenceOptions(dim=8, hidden=(8,), length=8, dropout=0),
    ),
    "slrm": (Layout(scalar=("item",), bags=("tags",)), SlrmOptions(history="tags")),
}


@pytest.fixture(scope="module", params=PARTS)
def trial(request: pytest.FixtureRequest) -> AlgorithmTrial:
    layout, options = OTHERS.get(request.param, (algorithms.LAYOUT, None))
    return AlgorithmTrial(PARTS[request.param], options, layout)


@lengthy
@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_an_algorithm_conforms(trial: AlgorithmTrial, check: Callable[[AlgorithmTrial], None]) -> None:
    check(trial)


@dataclass(frozen=True)
class EmptyOptions:
    """No options."""


def wrong(**changes: Any) -> AlgorithmTrial:
    """Return a trial of xftrl with other scores, or another field of its loss, in place of its own."""

    def make(options: EmptyOptions, layout: Layout) -> Algorithm:
        made = xftrl(XftrlOptions(), layout)
        scores = changes.get("scores", made.scores)
        loss = LOGLOSS._replace(**{name: value for name, value in changes.items() if name != "scores"})
        return replace(made, learns=Online(Supervised(scores, loss)))

    return AlgorithmTrial(Part("wrong", EmptyOptions, make))


def without_groups(rows: Any, inputs: Inputs) -> jax.Array:
    return linear_scores(rows["weights"], inputs._replace(group=None))


def normalised(rows: Any, inputs: Inputs) -> jax.Array:
    scores = linear_scores(rows["weights"], inputs)
    return scores - scores.mean()


def shouting(rows: Any, inputs: Inputs) -> jax.Array:
    return linear_scores(rows["weights"], inputs) * jnp.exp(jnp.abs(rows["weights"]).sum() * 100)


def deaf(rows: Any, inputs: Inputs) -> jax.Array:
    return 0 * linear_scores(rows["weights"], inputs)


def everywhere(rows: Any, inputs: Inputs) -> jax.Array:
    return linear_scores(rows["weights"], inputs) + rows["weights"].sum()


def bound_to_cpus(rows: Any, inputs: Inputs) -> jax.Array:
    weights = jax.lax.stop_gradient(rows["weights"][:, 0])
    result = jax.ShapeDtypeStruct((len(inputs.weight),), weights.dtype)
    found: jax.Array = jax.ffi.ffi_call(PREFIX + "total", result, vmap_method="sequential")(weights, inputs.scalar)
    return found[:, None] + linear_scores(rows["weights"], inputs)


@lengthy
@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"scores": normalised}, algorithms.one_example_is_enough),
        ({"scores": normalised}, algorithms.nan_stays_in_its_example),
        ({"scores": normalised}, algorithms.padding_changes_nothing),
        ({"scores": shouting}, algorithms.finite_input_gives_finite_results),
        ({"scores": deaf}, algorithms.only_the_rows_of_a_batch_learn),
        ({"scores": without_groups}, algorithms.what_examples_have_in_common_may_come_once),
        ({"scores": everywhere}, algorithms.only_the_rows_of_a_batch_learn),
        ({"scores": bound_to_cpus}, algorithms.it_runs_on_accelerators),
        ({"link": lambda scores: scores}, algorithms.a_classifier_predicts_probabilities),
        ({"value": lambda scores, labels: -LOGLOSS.value(scores, labels)}, algorithms.it_learns_with_its_optimizers),
    ],
)
def test_the_suite_finds_a_wrong_algorithm(changes: dict[str, Any], check: Callable[[AlgorithmTrial], None]) -> None:
    with pytest.raises(AssertionError):
        check(wrong(**changes))
