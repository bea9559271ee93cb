"""What neighbouring examples have in common may be held once: gradients and predictions are those of the flat batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.cases import costly_after_first
from tests.input.test_groups import CODES, chunk_of
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Algorithm, Layout
from xpsql.algorithms.blocks.histories import HISTORIES, HistorySlots
from xpsql.algorithms.chunk import RowRuns
from xpsql.platform.input.batches import Batch, Ladders, batches
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.messages import BatchId
from xpsql.platform.training.online.step import Learned, inputs_of, learn_step, random_of

LAYOUT = Layout(("user", "item"), ("tags", "pairs")).having(
    HISTORIES, [HistorySlots("history", ("clicked", "category")), HistorySlots("pooled", ("seen",))]
)
SIZE, EACH = 8, 6
USED: dict[str, dict[str, Any]] = {"xftrl": {}, "fm": {"dim": 4}, "ffm": {"dim": 4}, "xnn": {"dim": 4, "hidden": (8,)}} | {
    name: {"target": ("user", "item"), "history": ("clicked", "category"), "dim": 4, "hidden": (8,), "attention": (8,)}
    for name in ("din", "dien")
}
TOWERS = {"user": ("tags", "user"), "user_tower": (6, 5)}
SIDED: dict[str, tuple[str, dict[str, Any]]] = {
    "the towers of xnn": ("xnn", {**USED["xnn"], **TOWERS, "item_tower": (7,)}),
    "a user's tower of arrays": ("xnn", {**USED["xnn"], "user": ("tags",), "user_tower": (6,), "pooling": "mean"}),
    "a user's tower of categories": ("xnn", {**USED["xnn"], "user": ("user",), "user_tower": (6,), "normalise": "layer_norm"}),
    "a user's tower of what rows do not share": ("xnn", {**USED["xnn"], "user": ("user", "item"), "user_tower": (6,)}),
    "the towers of wide_deep": ("wide_deep", {"dim": 4, "hidden": (), **TOWERS, "long_dim": 2}),
    "the towers of deepfm": ("deepfm", {"dim": 4, "hidden": (8,), **TOWERS, "item_tower": (7, 3)}),
    "the towers of din": ("din", {**USED["din"], **TOWERS, "item_tower": (7,)}),
}
USED["dcn"] = {"dim": 4, "hidden": (8,), "rank": 2}
USED["two_tower"] = {"query": ("user", "tags"), "item": ("item", "pairs"), "dim": 4, "temperature": 1.0}


def made(name: str, options: dict[str, Any]) -> Algorithm:
    part = ALGORITHMS.find(name)
    assert part is not None
    return part.make(part.options(**options), LAYOUT if name in ("din", "dien") else LAYOUT.having(HISTORIES, ()))


def learned(
    algorithm: Algorithm, batch: Batch, dense: dict[str, NDArray[np.float32]]
) -> tuple[Learned, dict[str, NDArray[Any]]]:
    """Return what a step gives, and the gradients of rows in the order of keys."""
    weights = {}
    for spec in algorithm.tables:
        known = np.random.default_rng(3).normal(size=(CODES, spec.dim)).astype(np.float32) * 0.5
        weights[spec.name] = np.zeros((batch.size, spec.dim), np.float32)
        weights[spec.name][: len(batch.keys)] = known[(batch.keys - 100).astype(int)]
    inputs = inputs_of(batch, np.zeros((len(batch.weight), 0), np.float32), random_of(batch, 1))
    found: Learned = learn_step(algorithm)(weights | dense, inputs, None)
    order = np.argsort(batch.keys)
    return found, {name: np.asarray(gradient)[order] for name, gradient in found.gradients.items()}


@costly_after_first
@pytest.mark.parametrize("use", [*USED, *SIDED])
def test_gradients_are_those_of_a_flat_batch(use: str) -> None:
    name, options = SIDED.get(use) or (use, USED[use])
    algorithm, ladders = made(name, options), Ladders(Ladder(), Ladder())
    random = np.random.default_rng(4)
    dense = {spec.name: random.normal(size=spec.shape).astype(np.float32) * 0.5 for spec in algorithm.dense}

    @settings(max_examples=EACH, deadline=None)
    @given(runs=st.lists(st.integers(1, 9), min_size=1, max_size=9), seed=st.integers(0, 1000))
    def same(runs: list[int], seed: int) -> None:
        """Runs are cut by the edges of batches, arrays are empty, features are absent, and batches are padded."""
        chunk = chunk_of(runs, seed)
        if name not in ("din", "dien"):
            chunk = chunk.having(HISTORIES, ())
        starts = np.concatenate([[0], np.cumsum(runs)[:-1]]).astype(np.int64)
        common = RowRuns(starts, (True, False, True), (0,), (0,) if chunk.block(HISTORIES) else ())
        pairs = [batches(one, SIZE, BatchId(), ladders) for one in (chunk, chunk._replace(runs=common))]
        for flat, once in zip(*pairs, strict=True):
            (expected, rows), (found, others) = (learned(algorithm, one, dense) for one in (flat, once))
            np.testing.assert_allclose(found.predictions, expected.predictions, 1e-5, 1e-6)
            for gradients, wanted in ((others, rows), (found.dense, expected.dense)):
                for parameter, gradient in wanted.items():
                    np.testing.assert_allclose(gradients[parameter], gradient, 1e-5, 1e-6, err_msg=parameter)

    same()
