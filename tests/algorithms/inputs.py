"""A batch with every kind of slot, for tests of algorithms against their definitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpsql.algorithms.base import Inputs, Layout
from xpsql.algorithms.blocks.bags import BagRows

NUM_ROWS, BATCH = 20, 4
LAYOUT = Layout(("user", "item"), ("tags", "scores"), ("price",), (("picture", 2),))


class Feature(NamedTuple):
    """A feature of an example: its slot, its row, and its value."""

    slot: str
    row: int
    value: float


def random_inputs(intercept: bool = True) -> Inputs:
    """Return a batch of LAYOUT; the intercept's row is 15, rows 16 to 18 belong to dense inputs."""
    random = np.random.default_rng(0)
    lines = [random.integers(0, 10, (2, BATCH)), *([np.full((1, BATCH), 15)] if intercept else [])]
    return Inputs(
        *(
            np.vstack(lines).astype(np.int32),
            BagRows(
                random.integers(10, 14, 6).astype(np.int32),
                np.array([0, 0, 1, 3, 3, 3], np.int32),
                np.array([0, 0, 1, 1, 0, 1], np.int32),
                random.random(6).astype(np.float32),
            ),
            random.normal(size=(BATCH, 3)).astype(np.float32),
            np.array([16, 17, 18], np.int32),
            np.zeros((BATCH, 1), np.float32),
            np.ones(BATCH, np.float32),
        )
    )


def features(inputs: Inputs, example: int) -> list[Feature]:
    """Return an example's features, the intercept left out."""
    found = [Feature(slot, int(line[example]), 1.0) for slot, line in zip(LAYOUT.scalar, inputs.scalar, strict=False)]
    values = zip(*inputs.bags, strict=True)
    found += [Feature(LAYOUT.bags[slot], int(row), float(weight)) for row, of, slot, weight in values if of == example]
    slots = ("price", "picture", "picture")
    dense = zip(slots, inputs.dense_index, inputs.dense[example], strict=True)
    return found + [Feature(slot, int(row), float(value)) for slot, row, value in dense]


def linear_part(weights: object, inputs: Inputs, example: int) -> float:
    """Return the linear part of a network: that of an array is its sum over the root of its numbers' sum, without sign."""
    column, own = np.asarray(weights)[:, 0], features(inputs, example)
    lengths = {slot: sum(abs(f.value) for f in own if f.slot == slot) ** 0.5 for slot in LAYOUT.bags}
    return float(column[15] + sum(column[f.row] * f.value / lengths.get(f.slot, 1) for f in own))
