"""The networks of examples/networks: each learns what a log has, in under 60 lines."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import xpsql
from tests.cases import costly, costly_after_first, lengthy

GALLERY = Path(__file__).parents[2] / "examples" / "networks"
NETWORKS = {
    "dcn_jax": ("jax", ""),
    "dcn_nnx": ("flax", ", class = 'Dcn'"),
    "dcn_equinox": ("equinox", ", class = 'Dcn'"),
    "dcn_keras": ("keras", ", class = 'Dcn'"),
    "dcn_torch": ("torch", ", class = 'Dcn'"),
    "din_nnx": ("flax", ", class = 'Din', target = (item), history = (clicked), length = 2"),
    "transformer_nnx": ("flax", ", class = 'Transformer', target = (item), history = (clicked), length = 8"),
}
ROWS, ITEMS = 3000, 12


def log() -> pa.Table:
    """Return clicks on an item of the group that the user clicked last."""
    random = np.random.default_rng(3)
    user, item = random.integers(0, 40, ROWS), random.integers(0, ITEMS, ROWS)
    last = random.integers(0, ITEMS, ROWS)
    clicked = [[f"i{value}" for value in (*random.integers(0, ITEMS, row % 5), last[row])] for row in range(ROWS)]
    liked = (item % 3 == last % 3) & (user % 4 != 0)
    click = random.random(ROWS) < np.where(liked, 0.9, 0.1)
    names = {"user": [f"u{value}" for value in user], "item": [f"i{value}" for value in item]}
    return pa.table({**names, "last": [f"i{value}" for value in last], "clicked": clicked, "click": click.astype(np.int64)})


def test_every_network_is_short() -> None:
    found = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in GALLERY.glob("*.py")}
    assert NETWORKS.keys() <= found.keys()
    assert max(found.values()) < 60, found


@lengthy
@costly_after_first
@pytest.mark.filterwarnings("default")  # of Keras, when it is imported
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_learns(name: str, session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    package, options = NETWORKS[name]
    pytest.importorskip(package)
    session.register("log", log())
    columns = "user, item, clicked, click" if "history" in options else "user, item, last, click"
    session.sql(
        f"TRAIN MODEL m USING network (file = '{GALLERY / name}.py'{options}, dim = 8) LABEL click "
        f"WITH (passes = 8, batch_size = 100) AS SELECT {columns} FROM log"
    )
    found = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT {columns} FROM log))").arrow()["auc"][0].as_py()
    assert found > 0.8


def plain_loss(outputs: list[NDArray[np.float64]], truth: NDArray[np.float64], anchors: NDArray[np.float64]) -> float:
    """Return the loss of YOLO v3, cell by cell."""

    def bce(logit: float, wanted: float) -> float:
        return float(np.log1p(np.exp(-abs(logit))) + max(logit, 0) - logit * wanted)

    def overlap(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        low, high = (
            f(one[:2] + s * one[2:] / 2, other[:2] + s * other[2:] / 2) for f, s in ((np.maximum, -1), (np.minimum, 1))
        )
        common = float(np.prod(np.maximum(high - low, 0)))
        return common / float(np.prod(one[2:]) + np.prod(other[2:]) - common)

    total = 0.0
    for image, boxes in enumerate(truth):
        boxes, responsible = boxes[boxes[:, 2] > 0], set()
        for box in boxes:
            shapes = [overlap(np.array([0, 0, *box[2:4]]), np.array([0, 0, *anchor])) for anchor in anchors]
            best = int(np.argmax(shapes))
            scale, which, stride = best // 3, best % 3, 8 * 2 ** (best // 3)
            column, row = (int(box[axis] // stride) for axis in (0, 1))
            t, weight = outputs[scale][image, row, column, which], 2 - box[2] * box[3] / 64**2
            responsible.add((scale, row, column, which))
            for axis, cell in ((0, column), (1, row)):
                total += weight * bce(t[axis], box[axis] / stride - cell)
                total += weight * (t[2 + axis] - np.log(box[2 + axis] / anchors[best][axis])) ** 2
            total += sum(bce(t[5 + kind], float(kind == box[4])) for kind in range(len(t) - 5))
        for scale, output in enumerate(outputs):
            for row, column, which in np.ndindex(*output.shape[1:4]):
                t, mine = output[image, row, column, which], (scale, row, column, which) in responsible
                centre = (1 / (1 + np.exp(-t[:2])) + (column, row)) * 8 * 2**scale
                said = np.concatenate([centre, anchors[3 * scale + which] * np.exp(t[2:4])])
                if mine or all(overlap(said, box[:4]) <= 0.5 for box in boxes):
                    total += bce(t[4], float(mine))
    return total / len(truth)


@costly
def test_the_loss_of_yolo_is_that_of_a_plain_loop_and_falls() -> None:
    pytest.importorskip("flax")
    from flax import nnx

    spec = importlib.util.spec_from_file_location("yolo_nnx", GALLERY / "yolo_nnx.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018
    yolo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(yolo)
    random, anchors = np.random.default_rng(0), np.array([(side, side) for side in (8, 12, 16, 20, 24, 28, 36, 48, 64)], float)
    outputs = [random.normal(size=(2, 64 // stride, 64 // stride, 3, 8)) for stride in (8, 16, 32)]
    truth = np.zeros((2, 3, 5))
    truth[0] = [[20.5, 30, 12, 9, 1], [21, 31, 13, 9, 2], [40, 50, 40, 26, 0]]
    truth[1, 0] = [9, 60, 20, 24, 2]
    found = yolo.loss([jnp.asarray(one) for one in outputs], jnp.asarray(truth), 64**2, jnp.asarray(anchors))
    assert float(found) == pytest.approx(plain_loss(outputs, truth, anchors), rel=1e-5)
    network, wanted = yolo.Yolo(1, 3, rngs=nnx.Rngs(0)), jnp.asarray(truth, jnp.float32)
    optimizer = nnx.Optimizer(network, optax.adam(1e-3), wrt=nnx.Param)
    images = jnp.asarray(random.random((2, 64, 64, 1)), jnp.float32)

    @nnx.jit
    def step(network: Any, optimizer: Any) -> Any:
        value, gradients = nnx.value_and_grad(lambda own: yolo.loss(own(images), wanted, 64**2, jnp.asarray(anchors)))(network)
        optimizer.update(network, gradients)
        return value

    losses = [float(step(network, optimizer)) for _ in range(4)]
    assert losses[-1] < losses[0]
