"""Two streams, each over what its slots choose, and the products of both."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import costly
from xpsql.algorithms.base import Layout
from xpsql.algorithms.networks.two_stream import TWO_STREAM, Fusion, TwoStreamOptions
from xpsql.platform.errors import OptionError
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial, algorithms


@costly
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalise": "none", "first": ("user",), "gate_hidden": 4},
        {"first": ("user", "tags"), "second": ("item",), "second_hidden": (6, 4), "heads": 1},
        {"dropout": 0.5, "normalise": "none"},
        {"booster": (8,), "long_dim": 3},
    ],
)
def test_every_form_of_two_streams_conforms(options: dict[str, Any]) -> None:
    made = TwoStreamOptions(**{"dim": 4, "hidden": (8, 4), "heads": 2, **options})
    for check in ALGORITHM_CHECKS:
        if check is algorithms.learning_and_scoring_agree and made.normalise != "none":
            continue  # an update takes the batch's statistics, scoring the averages
        if check is algorithms.what_examples_have_in_common_may_come_once and made.dropout:
            continue
        check(AlgorithmTrial(TWO_STREAM, made))


def test_streams_are_joined_by_the_products_of_each_head() -> None:
    random, layout = np.random.default_rng(0), Layout(("user", "item"))
    joint = Fusion(TwoStreamOptions(heads=2), layout, [4, 6])
    parameters = {spec.name: random.normal(size=spec.shape) for spec in joint.specs}
    one, two = random.normal(size=(5, 4)), random.normal(size=(5, 6))
    wanted = parameters["output_1.bias"] + parameters["output_2.bias"]
    wanted = wanted + one @ parameters["output_1.kernel"] + two @ parameters["output_2.kernel"]
    for head, product in enumerate(parameters["products"][..., 0]):
        mine, theirs = one[:, 2 * head : 2 * head + 2], two[:, 3 * head : 3 * head + 3]
        wanted[:, 0] += np.sum((mine @ product) * theirs, axis=1)
    given = {name: jnp.asarray(values, jnp.float32) for name, values in parameters.items()}
    found = joint.apply(given, jnp.asarray(one, jnp.float32), jnp.asarray(two, jnp.float32))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_streams_begin_by_seeing_the_inputs_as_they_are_where_no_slot_chooses() -> None:
    made = TWO_STREAM.make(TwoStreamOptions(), algorithms.LAYOUT)
    gates = {spec.name: spec.init for spec in made.dense if spec.name.endswith(".gate")}
    assert gates == {"stream_1.gate": None, "stream_2.gate": None}, "2 sigmoid(0) = 1"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hidden": ()}, "hidden of algorithm two_stream expects one layer or more"),
        ({"hidden": (8, 6)}, "ends with 6 units, which heads = 4 does not divide"),
        ({"second_hidden": (8, 6)}, "second_hidden of algorithm two_stream ends with 6 units"),
        ({"first": ("usr",)}, "names 'usr', which is not a slot. Did you mean user"),
        ({"second": ("price",)}, "names 'price', which is not a slot"),
    ],
)
def test_streams_that_cannot_be_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        TWO_STREAM.make(TwoStreamOptions(**options), algorithms.LAYOUT)
