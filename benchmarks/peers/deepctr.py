"""DeepCTR-Torch's Wide & Deep, Adam.

python -m benchmarks.peers.deepctr TRAIN TEST DIM BEGAN
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from deepctr_torch.inputs import SparseFeat
from deepctr_torch.models import WDL

from benchmarks.peers.pytorch import BATCH_SIZE
from benchmarks.peers.rows import BUCKETS, Floats, Ids, main


def learn(ids: Ids, labels: Floats, dim: int) -> Callable[[Ids], Floats]:
    names = [f"slot_{i}" for i in range(ids.shape[1])]
    columns = [SparseFeat(name, BUCKETS // len(names), dim) for name in names]
    model = WDL(columns, columns, dnn_hidden_units=(128, 64), l2_reg_linear=0, l2_reg_embedding=0, seed=7)
    model.compile("adam", "binary_crossentropy")
    model.fit(by_name(names, ids), labels, BATCH_SIZE, epochs=1, verbose=0, shuffle=False)
    return lambda test: model.predict(by_name(names, test), BATCH_SIZE)[:, 0]


def by_name(names: list[str], ids: Ids) -> dict[str, Ids]:
    """Return the ids of each slot, in a table of its own: one table for all would get a dense gradient for each of them."""
    return {name: ids[:, i] % (BUCKETS // len(names)) for i, name in enumerate(names)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(learn)
