"""A batch refers to its unique keys by index; counts and clicks agree with the data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa

from xpsql.algorithms.linear.xftrl import XftrlOptions
from xpsql.platform.input.batches import Batch, Ladders, batches
from xpsql.platform.input.encode import encode
from xpsql.platform.input.slots import columns_of
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.messages import BatchId
from xpsql.platform.training.plan import Plan, Use


def cut(table: pa.Table, batch_size: int, intercept: bool = True) -> list[Batch]:
    plan = Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "")
    return list(
        batches(
            encode(table, replace(columns_of(table.schema, plan.roles, None), intercept=intercept), with_labels=True),
            batch_size,
            BatchId(),
            Ladders(Ladder(), Ladder()),
        )
    )


def log(rows: int) -> pa.Table:
    random = np.random.default_rng(3)
    tags = [random.choice(["p", "q", "r"], random.integers(0, 4)).tolist() for _ in range(rows)]
    price = pa.array(random.normal(size=rows), mask=random.random(rows) < 0.3)
    user = pa.array(random.integers(0, 9, rows).astype(str), mask=random.random(rows) < 0.1)
    return pa.table({"label": random.integers(0, 2, rows), "user": user, "tags": tags, "price": price})


def test_indices_lead_to_the_keys_of_the_examples() -> None:
    table = log(25)
    for number, batch in enumerate(cut(table, 10)):
        rows = table.slice(number * 10, 10).to_pylist()
        assert (batch.id.batch, batch.examples) == (number, len(rows))
        found = [int(batch.keys[i]) for i in batch.scalar[0, : len(rows)]]
        users = {row["user"]: key for row, key in zip(rows, found, strict=True)}
        assert len(users) == len(set(users.values()))
        assert [users[row["user"]] for row in rows] == found
        assert (batch.scalar[:, batch.examples :] == len(batch.keys)).all()
        assert batch.size > len(batch.keys)


def test_counts_and_clicks_are_those_of_the_data() -> None:
    table = log(40)
    (batch,) = cut(table, 64)
    rows = table.to_pylist()
    expected: Counter[object] = Counter()
    for row in rows:
        for feature in [("user", row["user"]), *(("tag", tag) for tag in row["tags"]), ("intercept",)]:
            expected[feature] += 1
            expected[feature, "click"] += row["label"]
        if row["price"] is not None:
            expected["price"] += 1
            expected["price", "click"] += row["label"]
    pairs = sorted((n, expected[feature, "click"]) for feature, n in expected.items() if (feature, "click") in expected)
    assert sorted(zip(batch.counts.tolist(), batch.clicks.tolist(), strict=True)) == pairs


def test_values_of_arrays_belong_to_their_examples() -> None:
    table = pa.table({"label": [1, 0, 1], "tags": [["a", "b"], [], ["b"]]})
    (batch,) = cut(table, 4, intercept=False)
    used = batch.bags.weight > 0
    assert batch.bags.example[used].tolist() == [0, 0, 2]
    assert batch.bags.rows[used].tolist() == [0, 1, 1]
    assert (batch.bags.rows[~used] == len(batch.keys)).all()


def test_a_continuous_slot_without_values_makes_no_row() -> None:
    (batch,) = cut(pa.table({"label": [1], "x": pa.array([None], pa.float64())}), 2, intercept=False)
    assert len(batch.keys) == 0
    assert batch.dense_index.tolist() == [0]
