"""What operators offer of features, as dense inputs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

from tests.algorithms.inputs import BATCH, NUM_ROWS, random_inputs
from xpsql.algorithms.augments.pairs import PAIRS_NUMBER
from xpsql.algorithms.base import Layout
from xpsql.algorithms.linear.xftrl import XftrlOptions, xftrl
from xpsql.platform.errors import StatementError
from xpsql.platform.input.operator_inputs import Offered, with_offered
from xpsql.platform.input.slots import columns_of, offered_slots
from xpsql.platform.training.online.step import learn_step
from xpsql.platform.training.plan import Plan, Use

K = 3
SCALAR_SLOTS = 2


def offered_by(num_bags: int) -> Offered:
    random = np.random.default_rng(4)
    values = random.normal(size=(NUM_ROWS, K)).astype(np.float32)
    return Offered(values, random.integers(0, NUM_ROWS, (SCALAR_SLOTS + num_bags) * K).astype(np.int32))


@pytest.mark.parametrize("num_bags", [0, 1, 2])
def test_an_example_gets_what_is_offered_of_each_of_its_features(num_bags: int) -> None:
    inputs, offered = random_inputs(), offered_by(num_bags)
    slot, weight = np.array([0, 0, 0, 0, 0, num_bags > 1], np.int32), np.array([1, 2, 1, 0, 1, 3])
    inputs = inputs._replace(bags=inputs.bags._replace(slot=slot, weight=weight))
    found = with_offered(inputs, offered, intercept=True)
    expected = np.zeros((BATCH, SCALAR_SLOTS + num_bags, K))
    values = np.asarray(offered.values)
    for example in range(BATCH):
        for slot in range(SCALAR_SLOTS):
            expected[example, slot] = values[inputs.scalar[slot, example]]
        for bag in range(num_bags):
            mine = (inputs.bags.example == example) & (inputs.bags.slot == bag) & (inputs.bags.weight != 0)
            if mine.any():
                expected[example, SCALAR_SLOTS + bag] = values[inputs.bags.rows[mine]].mean(0)
    width = expected.shape[1] * K
    np.testing.assert_allclose(found.dense[:, :width], expected.reshape(BATCH, -1), rtol=1e-6)
    np.testing.assert_array_equal(found.dense[:, width:], inputs.dense)
    np.testing.assert_array_equal(found.dense_index, np.concatenate([offered.rows, inputs.dense_index]))


def test_the_weights_of_inputs_learn_and_what_is_offered_has_no_gradient() -> None:
    step = learn_step(xftrl(XftrlOptions(), Layout()))
    inputs, offered = random_inputs(), offered_by(0)._replace(rows=np.arange(SCALAR_SLOTS * K, dtype=np.int32))
    inputs = inputs._replace(scalar=inputs.scalar * 0 + NUM_ROWS - 1, label=inputs.label.T)
    weights = jnp.zeros((NUM_ROWS, 1))
    with_it = step({"weights": weights}, inputs, offered).gradients["weights"]
    without = step({"weights": weights}, inputs, None).gradients["weights"]
    np.testing.assert_allclose(
        with_it[:6, 0], -(0 - 0.5) * BATCH * np.tile(np.asarray(offered.values)[NUM_ROWS - 1], 2), rtol=1e-5
    )
    np.testing.assert_array_equal(with_it[6:], without[6:])
    assert jax.tree.structure(with_it) == jax.tree.structure(without)


SCHEMA = pa.schema([("tags", pa.list_(pa.string())), ("user", pa.string()), ("price", pa.float64()), ("label", pa.int32())])


def test_offered_slots_follow_the_order_of_inputs_and_count_down_from_the_intercept() -> None:
    columns = columns_of(SCHEMA, Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "").roles, None)
    slots = offered_slots(columns, ("a", "b"), None)
    assert [slot.name for slot in slots] == ["user:a", "user:b", "tags:a", "tags:b"]
    assert [slot.number for slot in slots] == [PAIRS_NUMBER - 1 - i for i in range(4)]


def test_a_column_that_bears_the_name_of_an_input_is_refused() -> None:
    schema = SCHEMA.append(pa.field("user:a", pa.string()))
    columns = columns_of(schema, Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "").roles, None)
    with pytest.raises(StatementError, match="offer user:a, and the query returns it; rename it"):
        offered_slots(columns, ("a", "b"), None)
