"""Digits on a canvas, found by the YOLO v3 of examples/networks: python -m benchmarks.digits [minutes]."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from numpy.typing import NDArray

FILE = Path(__file__).parents[1] / "examples" / "networks" / "yolo_nnx.py"
SIZE, MOST, CLASSES, BATCH = 96, 3, 10, 32
ANCHORS = jnp.array([(8, 8), (12, 12), (16, 16), (20, 20), (24, 24), (28, 28), (36, 36), (48, 48), (64, 64)], float)


def yolo() -> ModuleType:
    """Load the example."""
    spec = importlib.util.spec_from_file_location("yolo_nnx", FILE)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def canvases(count: int, seed: int, held_out: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return images [count, SIZE, SIZE, 1] with one to MOST digits each, and their boxes and classes [count, MOST, 5].

    Args:
        held_out: of the last fifth of scikit-learn's digits, in place of the others.
    """
    from sklearn.datasets import load_digits

    random, found = np.random.default_rng(seed), load_digits()
    cut = len(found.images) * 4 // 5
    pick = np.arange(cut, len(found.images)) if held_out else np.arange(cut)
    images, truth = np.zeros((count, SIZE, SIZE, 1), np.float32), np.zeros((count, MOST, 5), np.float32)
    for image, boxes in zip(images, truth, strict=True):
        taken = np.zeros((SIZE, SIZE), bool)
        for place in range(random.integers(1, MOST + 1)):
            one, side = random.choice(pick), 8 * int(random.integers(1, 5))
            row, column = random.integers(0, SIZE - side, 2)
            region = slice(row, row + side), slice(column, column + side)
            if taken[region].any():
                continue
            image[(*region, 0)] = np.kron(found.images[one] / 16, np.ones((side // 8, side // 8)))
            taken[region] = True
            boxes[place] = column + side / 2, row + side / 2, side, side, found.target[one]
    return images, truth


def train(seconds: float, steps: int = 1_000_000, batch: int = BATCH) -> tuple[Any, list[float]]:
    """Return a network, and the losses of its batches."""
    module = yolo()
    network, losses, ends = module.Yolo(1, CLASSES, rngs=nnx.Rngs(0)), [], time.process_time() + seconds
    optimizer = nnx.Optimizer(network, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(network: Any, optimizer: Any, images: jax.Array, truth: jax.Array) -> jax.Array:
        def loss(network: Any) -> jax.Array:
            value: jax.Array = module.loss(network(images), truth, SIZE * SIZE, ANCHORS)
            return value

        value, gradients = nnx.value_and_grad(loss)(network)
        optimizer.update(network, gradients)
        return value

    for number in range(steps):
        losses.append(float(step(network, optimizer, *canvases(batch, number, held_out=False))))
        if time.process_time() > ends:
            break
    return network, losses


def detections(network: Any, images: NDArray[np.float32]) -> list[list[tuple[float, int, NDArray[np.float32]]]]:
    """Return, for each image, scores, classes and boxes, the best of those that overlap."""
    module, found = yolo(), []
    outputs = nnx.jit(lambda network, x: network(x))(network, images)
    flat = []
    for scale, (t, stride) in enumerate(zip(outputs, module.STRIDES, strict=True)):
        boxes = module.boxes(t, ANCHORS[3 * scale : 3 * scale + 3], stride)
        score = jax.nn.sigmoid(t[..., 4:5]) * jax.nn.sigmoid(t[..., 5:])
        flat.append([np.asarray(one).reshape(len(images), -1, one.shape[-1]) for one in (boxes, score)])
    boxes, scores = (np.concatenate(parts, axis=1) for parts in zip(*flat, strict=True))
    for box, score in zip(boxes, scores, strict=True):
        kept: list[tuple[float, int, NDArray[np.float32]]] = []
        for place in np.argsort(-score.max(axis=1))[:50]:
            kind = int(score[place].argmax())
            apart = all(other != kind or float(module.iou(box[place], one)) < 0.45 for _, other, one in kept)
            if apart and score[place, kind] > 0.02:
                kept.append((float(score[place, kind]), kind, box[place]))
        found.append(kept)
    return found


def mean_precision(found: list[list[tuple[float, int, NDArray[np.float32]]]], truth: NDArray[np.float32]) -> float:
    """Return the mean over classes of the area under precision by recall, at an overlap of one half."""
    module, areas = yolo(), []
    for kind in range(CLASSES):
        boxes = [(score, image, box) for image, one in enumerate(found) for score, k, box in one if k == kind]
        said = sorted(boxes, key=lambda one: -one[0])
        there = {(int(image), int(place)) for image, place in np.argwhere((truth[..., 2] > 0) & (truth[..., 4] == kind))}
        hits, left = [], set(there)
        for _, image, box in said:
            hit = next((one for one in left if one[0] == image and module.iou(box, truth[one][:4]) >= 0.5), None)
            left.discard(hit)  # type: ignore[arg-type]
            hits.append(hit is not None)
        right = np.cumsum(hits)
        precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1] if hits else np.zeros(0)
        areas.append(float(precision[hits].sum() / max(1, len(there))) if hits else 0.0)
    return float(np.mean(areas))


if __name__ == "__main__":
    began = time.process_time()
    network, losses = train(60 * float(sys.argv[1] if len(sys.argv) > 1 else 5))
    images, truth = canvases(300, 1_000_000, held_out=True)
    precision = mean_precision(detections(network, images), truth)
    print(f"{len(losses)} steps of {BATCH}, loss {losses[0]:.1f} -> {np.mean(losses[-20:]):.2f}, mAP@0.5 {precision:.3f}")
    print(f"{time.process_time() - began:.0f} CPU seconds")
