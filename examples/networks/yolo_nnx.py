"""YOLO v3 in Flax NNX: boxes of objects in images, and their loss, for a loop of your own (Redmon and Farhadi, 2018)."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import optax
from flax import nnx

ANCHORS = jnp.array([(10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326)], float)
STRIDES, BCE = (8, 16, 32), optax.sigmoid_binary_cross_entropy


class Yolo(nnx.Module):
    """Sees images [batch, height, width, channels]; returns, for each stride, [batch, rows, columns, 3, 5 + classes]."""

    def __init__(self, channels: int, classes: int, widths: tuple[int, ...] = (16, 32, 64, 64, 64), *, rngs: nnx.Rngs):
        pairs = itertools.pairwise((channels, *widths))
        self.down = nnx.List([nnx.Conv(*pair, (3, 3), strides=2, rngs=rngs) for pair in pairs])
        self.heads = nnx.List([nnx.Conv(width, 3 * (5 + classes), (1, 1), rngs=rngs) for width in widths[2:]])

    def __call__(self, x):
        maps = [x := nnx.leaky_relu(layer(x)) for layer in self.down][2:]
        return [head(one).reshape(*one.shape[:3], 3, -1) for head, one in zip(self.heads, maps, strict=True)]


def iou(one, other):
    """Return the overlap of boxes (x, y, width, height), x and y the centre."""
    low = jnp.maximum(one[..., :2] - one[..., 2:] / 2, other[..., :2] - other[..., 2:] / 2)
    high = jnp.minimum(one[..., :2] + one[..., 2:] / 2, other[..., :2] + other[..., 2:] / 2)
    common = jnp.maximum(high - low, 0).prod(-1)
    return common / (one[..., 2:].prod(-1) + other[..., 2:].prod(-1) - common)


def boxes(t, anchors, stride):
    """Return the boxes that the outputs of a stride say."""
    rows, columns = jnp.meshgrid(*(jnp.arange(count) for count in t.shape[1:3]), indexing="ij")
    corner = jnp.stack([columns, rows], axis=-1)[:, :, None]
    return jnp.concatenate([(nnx.sigmoid(t[..., :2]) + corner) * stride, anchors * jnp.exp(t[..., 2:4])], axis=-1)


def loss(outputs, truth, area, anchors=ANCHORS, strides=STRIDES):
    """Return the loss by image; truth float[batch, T, 5] has boxes and classes, of width 0 where there are fewer."""
    box, kind, total, batch = truth[..., :4], truth[..., 4].astype(int), 0.0, jnp.arange(len(truth))[:, None]
    there, size = box[..., 2] > 0, jnp.maximum(box[..., 2:], 1e-6)
    best = iou(jnp.pad(size[:, :, None], [(0, 0)] * 3 + [(2, 0)]), jnp.pad(anchors, [(0, 0), (2, 0)])).argmax(-1)
    for scale, (t, stride) in enumerate(zip(outputs, strides, strict=True)):
        mine, which, cell = there & (best // 3 == scale), best % 3, (box[..., :2] // stride).astype(int)
        place = batch, cell[..., 1], cell[..., 0], which
        p, offset, ratio = t[place], box[..., :2] / stride - cell, jnp.log(size / anchors[best])
        where = BCE(p[..., :2], offset).sum(-1) + ((p[..., 2:4] - ratio) ** 2).sum(-1)
        classes = BCE(p[..., 5:], jnp.eye(p.shape[-1] - 5)[kind]).sum(-1)
        total += jnp.where(mine, (2 - size.prod(-1) / area) * where + classes, 0).sum()
        taken = jnp.zeros(t.shape[:4]).at[place].max(mine)
        near = iou(boxes(t, anchors[3 * scale : 3 * scale + 3], stride)[..., None, :], box[:, None, None, None])
        seen = jnp.where(there[:, None, None, None], near, 0).max(-1) > 0.5
        total += jnp.where((taken > 0) | ~seen, BCE(t[..., 4], taken), 0).sum()
    return total / len(truth)
