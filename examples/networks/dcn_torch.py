"""DCN in PyTorch: crossing layers of low rank beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

import torch
from torch import nn

import xpsql


class Dcn(nn.Module):
    """Sees a batch."""

    def __init__(
        self,
        features: xpsql.Features,
        *,
        cross: int = 2,
        rank: int = 32,
        hidden: tuple[int, ...] = (128, 64),
        dropout: float = 0.0,
        norm: bool = False,
    ):
        super().__init__()
        width, sizes, labels = features.width, (features.width, *hidden), len(features.labels)
        low = min(rank, width)
        self.down = nn.ModuleList(nn.Linear(width, low, bias=False) for _ in range(cross))
        self.up = nn.ModuleList(zeros(nn.Linear(low, width)) for _ in range(cross))
        self.hidden = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.cross_out, self.out = zeros(nn.Linear(width, labels)), nn.Linear(sizes[-1], labels)
        for layer in (*self.down, *self.hidden, self.out):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")

    def forward(self, x):
        """Return float32[batch, labels]."""
        first = crossed = deep = self.norm(x.flat)
        for down, up in zip(self.down, self.up, strict=True):
            crossed = first * up(down(crossed)) + crossed
        for layer in self.hidden:
            deep = self.dropout(torch.relu(layer(deep)))
        return self.cross_out(crossed) + self.out(deep) + x.wide


def zeros(layer):
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
