"""The network of benchmarks.peers.pytorch as one of the user's: USING network (file = ..., class = 'Mlp')."""

from torch import nn


class Mlp(nn.Module):  # type: ignore[misc]
    """Layers of 128 and 64 units and an output."""

    def __init__(self, features):  # type: ignore[no-untyped-def]
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features.width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.net(x.flat)
