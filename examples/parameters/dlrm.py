"""A DLRM in PyTorch whose embeddings are in a parameter server: python dlrm.py WAREHOUSE QUERY

The query has a column label, numbers i0, i1, ... and categories c0, c1, ...; see docs/ps.md.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn

import xpsql.ps
import xpsql.torch

NUMBERS, SLOTS, DIM = 3, 4, 8
TABLES = {"f": xpsql.ps.Table(DIM, "adagrad (learning_rate = 0.05)", slots=[f"c{i}" for i in range(SLOTS)], init=0.1)}


class DLRM(nn.Module):
    """Dense features and pooled embeddings, and their products by pairs.

    Source: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019.
    """

    def __init__(self, table: xpsql.ps.ServerTable) -> None:
        super().__init__()
        self.bags = nn.ModuleList(xpsql.torch.EmbeddingBag(table, slot) for slot in table.slots)
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 16), nn.ReLU(), nn.Linear(16, DIM), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(DIM + (SLOTS + 1) * SLOTS // 2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.pairs = torch.triu_indices(SLOTS + 1, SLOTS + 1, 1)

    def forward(self, batch):
        numbers = np.stack([batch[f"i{i}"].to_numpy().astype(np.float32) for i in range(NUMBERS)], 1)
        x = self.bottom(torch.from_numpy(numbers))
        sparse = [batch[f"c{i}"].to_numpy()[:, None] for i in range(SLOTS)]
        vectors = torch.stack([x, *xpsql.torch.pooled(list(self.bags), sparse)], 1)  # one pull for all slots
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


def train(warehouse, query, passes=1):
    """Learn from a query, commit a version of model dlrm, and return the mean loss of each batch."""
    torch.manual_seed(0)
    losses = []
    with xpsql.ps.local(warehouse, "dlrm", tables=TABLES) as ps:
        model = DLRM(ps["f"])
        optimizer = torch.optim.Adagrad(model.parameters(), 0.05)  # of the dense part: bags have no parameters
        if "dense.pt" in ps.files:  # both go back to one checkpoint
            model.load_state_dict(torch.load(ps.files["dense.pt"]))
        for batch in ps.batches(query, 256, passes, files=lambda: {"dense.pt": xpsql.torch.saved(model)}):
            label = torch.from_numpy(batch["label"].to_numpy().astype(np.float32))
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        files = {"dense.pt": xpsql.torch.saved(model)}
        ps.checkpoint(files)
        ps.commit("dlrm", files)
    return losses


if __name__ == "__main__":
    losses = train(*sys.argv[1:])
    print(f"{len(losses)} batches; loss of the last: {losses[-1]:.4f}" if losses else "All batches are learned.")
